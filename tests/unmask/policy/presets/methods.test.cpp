// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Whole methods for sessions without layers: the published values of their parts, and that they
// decode. Those that skip positions at layers are in layers/methods.test.cpp.

#include <unmask/policy/commit/threshold_calibrator.hpp>
#include <unmask/policy/presets/methods.hpp>
#include <unmask/policy/presets/released.hpp>
#include <unmask/policy/stop.hpp>

#include <type_traits>

#include "support/by_name.hpp"
#include "support/observed_decode.hpp"
#include "support/part_of.hpp"

namespace unmask::testing::methods_test {
namespace {

constexpr sequence_shape geometry{.prompt_length = 2, .length = 42, .block_length = 10};

TEST(Methods, CreditDecodingHasTheValuesOfSection5) {
  auto p = methods::credit_decoding();
  EXPECT_EQ(part_of<trace_credit<64>>(p).strength, 0.65F);
  EXPECT_EQ(part_of<trace_credit<64>>(p).decay, 0.7F);
  EXPECT_EQ(part_of<trace_credit<64>>(p).exponent, 0.2F);
  EXPECT_EQ(part_of<threshold>(p).value, 0.9F);
  EXPECT_TRUE(part_of<threshold>(p).inclusive);
  static_assert(by_confidence::required == stat::confidence);
  auto released = methods::credit_decoding(0.8F, credit_released<64>);
  EXPECT_EQ(part_of<trace_credit<64>>(released).strength, 0.7F);
  EXPECT_EQ(part_of<threshold>(released).value, 0.8F);
}

TEST(Methods, CreditDecodingDecodesAndNeedsNoMoreStepsThanItsThreshold) {
  std::size_t with_credit = 0;
  std::size_t without = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const made_up_model model{.seed = seed};
    with_credit += commits_of(methods::credit_decoding(), model, geometry).size();
    without += commits_of(policy{by_confidence{}, threshold{0.9F, true}}, model, geometry).size();
  }
  EXPECT_LT(with_credit, without);
}

TEST(Methods, MorePartsFollowThoseOfTheMethod) {
  auto p =
      methods::with(methods::credit_decoding(0.8F), stop_at_eos{}, prefix_cache{3}, single_block{});
  EXPECT_EQ(part_of<threshold>(p).value, 0.8F);
  EXPECT_EQ(part_of<prefix_cache>(p).period, 3);
  static_assert(std::is_same_v<decltype(p),
                               policy<by_confidence,
                                      threshold,
                                      trace_credit<64>,
                                      stop_at_eos,
                                      prefix_cache,
                                      single_block>>);
}

TEST(Methods, LopaWithD2fHasTheValuesOfTable5) {
  auto p = methods::lopa_d2f();
  EXPECT_EQ(part_of<lookahead>(p).branches, 14);
  EXPECT_EQ(part_of<lookahead>(p).lowest_share, 1.0F);
  EXPECT_EQ(part_of<lookahead>(p).creation_weight, 0.0F);
  EXPECT_FALSE(part_of<lookahead>(p).complete_wins);
  EXPECT_EQ(part_of<threshold>(p).value, 0.9F);
  EXPECT_EQ(part_of<block_pipeline>(p).add, 0.1F);
  EXPECT_EQ(part_of<block_pipeline>(p).activate, 0.95F);
  EXPECT_EQ(part_of<block_pipeline>(p).at_once * 32, 256);
  auto code = methods::lopa_d2f({.branches = 7}, 0.95F, {.add = 0.3F});
  EXPECT_EQ(part_of<block_pipeline>(code).activate, 0.95F);
  EXPECT_EQ(part_of<lookahead>(code).branches, 7);
}

/// Decodes with every branch's token in its place.
template <class Policy>
sequence_report decode_branches(const Policy& p, const made_up_model& model, index_t branches) {
  std::vector<token_id> tokens(static_cast<std::size_t>(geometry.length), 0);
  session<by_name_type<Policy>> s(
      model.info(), {.length = geometry.length, .window = geometry.length, .branches = branches});
  s.start(0, by_name(p), tokens, geometry);
  const auto columns = static_cast<std::size_t>(model.vocab);
  while (const auto request = s.next()) {
    std::vector<float> logits(static_cast<std::size_t>(request->rows) * columns);
    for (const segment& part : request->segments) {
      std::vector<token_id> x = tokens;
      for (const auto& placed : part.placed) {
        x[static_cast<std::size_t>(placed.position)] = placed.token;
      }
      for (index_t r = 0; r < part.rows.size(); ++r) {
        const auto at = static_cast<std::size_t>(part.first_row + r) * columns;
        model.row(x, part.rows.first + r, std::span(logits).subspan(at, columns));
      }
    }
    s.supply(host_logits<float>{logits.data(), request->rows, model.vocab});
  }
  for (const token_id token : tokens) {
    EXPECT_NE(token, model.info().mask_token);
  }
  return s.report();
}

TEST(Methods, LopaWithD2fDecodesWithAllItsBranches) {
  index_t fewer = 0;
  index_t more = 0;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const made_up_model model{.seed = seed};
    const sequence_report ahead = decode_branches(methods::lopa_d2f(), model, 14);
    EXPECT_EQ(ahead.end, ending::complete);
    EXPECT_EQ(ahead.committed, 40);
    fewer += ahead.forwards;
    more += decode_branches(methods::lopa_d2f({.branches = 0}), model, 14).forwards;
  }
  EXPECT_LT(fewer, more);
}

TEST(Methods, DynamicDllmRunsEveryPositionInEveryPass) {
  auto p = methods::dynamic_dllm();
  EXPECT_EQ(part_of<interval_cache>(p).prompt_period, 1);
  EXPECT_EQ(part_of<interval_cache>(p).answer_period, 0);
}

TEST(Methods, EsDllmHasTheValuesOfSection6) {
  const auto expect = [](const auto& p) {
    const early_skip& skip = part_of<early_skip>(p);
    EXPECT_EQ(skip.weight, 0.5F);
    ASSERT_EQ(skip.stage_count, 2);
    EXPECT_EQ(skip.stages[0].depth, 0.125);
    EXPECT_EQ(skip.stages[0].keep, 0.5);
    EXPECT_EQ(skip.stages[1].depth, 0.25);
    EXPECT_EQ(skip.stages[1].keep, 0.25);  // half of the half
    EXPECT_EQ(part_of<block_cache>(p).prompt_period, 64);
    EXPECT_EQ(part_of<block_cache>(p).block_period, 16);
  };
  auto one = methods::es_dllm_sparse();
  expect(one);
  EXPECT_EQ(part_of<tokens_per_step>(one).count, 1);
  EXPECT_EQ(part_of<key_eviction>(one).keep, 0.5);  // appendix C.3.2
  EXPECT_EQ(part_of<key_eviction>(one).pool, 3);
  EXPECT_EQ(part_of<key_eviction>(one).delay, 1);
  auto parallel = methods::es_dllm_parallel_sparse(0.8F);
  expect(parallel);
  EXPECT_EQ(part_of<threshold>(parallel).value, 0.8F);
  EXPECT_FALSE(part_of<threshold>(parallel).inclusive);
}

TEST(Methods, D3llmHasTheValuesOfItsRelease) {
  auto p = methods::d3llm();
  EXPECT_EQ(part_of<entropy_below>(p).value, 0.5F);
  const auto& blocks = part_of<block_pipeline>(p);
  EXPECT_EQ(blocks.add, 0.1F);
  EXPECT_EQ(blocks.activate, 1.0F);
  EXPECT_EQ(blocks.at_once, max_active_blocks);
  EXPECT_TRUE(blocks.whole_canvas);
  EXPECT_FALSE(blocks.ends_at_eos);
  EXPECT_EQ(part_of<entropy_below>(methods::d3llm(0.25F, 0.5F)).value, 0.25F);
  EXPECT_EQ(part_of<block_pipeline>(methods::d3llm(0.25F, 0.5F)).add, 0.5F);
}

TEST(Methods, OsdtHasTheSettingsOfSection4) {
  using profile = calibrated_threshold<>;
  constexpr profile gsm8k = part_of<profile>(methods::osdt_gsm8k());
  static_assert(gsm8k.mode == profile_mode::block && gsm8k.statistic == metric::q1);
  static_assert(gsm8k.cap == 0.75F && gsm8k.slack == 0.2F && gsm8k.threshold == 0.9F);
  constexpr profile gpqa = part_of<profile>(methods::osdt_gpqa());
  static_assert(gpqa.mode == profile_mode::step_block && gpqa.statistic == metric::median);
  static_assert(gpqa.cap == 0.75F && gpqa.slack == 0.2F && gpqa.threshold == 0.9F);
  constexpr profile humaneval = part_of<profile>(methods::osdt_humaneval());
  static_assert(humaneval.mode == profile_mode::block && humaneval.statistic == metric::q1);
  static_assert(humaneval.cap == 0.8F && humaneval.slack == 0.1F && humaneval.threshold == 0.9F);
  static_assert(gsm8k.blocks == 0 && gpqa.blocks == 0 && humaneval.blocks == 0);
}

/// The first sequence is decoded with the static threshold and recorded; the same type decodes the
/// others with its profile.
TEST(Methods, OsdtCalibratesOnOneSequenceAndDecodesTheOthers) {
  const auto expect = [](const auto& first, float most) {
    const made_up_model model{.seed = 3};
    EXPECT_EQ(commits_of(first, model, geometry),
              commits_of(policy{by_confidence{}, threshold{0.9F}}, model, geometry));
    const auto& settings = part_of<calibrated_threshold<>>(first);
    std::vector<token_id> tokens(42, 0);
    session s{first, model.info(), tokens, geometry};
    const auto calibrated = calibrating(
        s, geometry, settings, [&](const forward_request& r) { supply_one(s, r, model, tokens); });
    EXPECT_EQ(calibrated.blocks, 4);
    EXPECT_EQ(calibrated.mode, settings.mode);
    const auto later = methods::osdt(calibrated);
    static_assert(std::is_same_v<decltype(later), std::remove_reference_t<decltype(first)>>);
    for (std::uint64_t seed = 4; seed < 8; ++seed) {
      observe_decode(later, made_up_model{.seed = seed}, geometry, [&](const observed_step& w) {
        for (const observed_row& row : w.masked) {
          const bool committed = std::ranges::any_of(
              w.committed, [&](const commit_entry& e) { return e.position == row.position; });
          EXPECT_TRUE(committed || row.confidence <= static_cast<double>(most) + 1e-6)
              << "no threshold exceeds cap (1 - slack)";
        }
      });
    }
  };
  expect(methods::osdt_gsm8k(), 0.6F);
  expect(methods::osdt_gpqa(), 0.6F);
  expect(methods::osdt_humaneval(), 0.72F);
}

}  // namespace
}  // namespace unmask::testing::methods_test
