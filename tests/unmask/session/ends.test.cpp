// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/host/backend.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/commit/frontier.hpp>
#include <unmask/policy/commit/hierarchical.hpp>
#include <unmask/policy/commit/noise_level.hpp>
#include <unmask/policy/logits/eos.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/presets/released.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/remask/edit_committed.hpp>
#include <unmask/policy/remask/remask_below.hpp>
#include <unmask/policy/schedule/pipeline.hpp>
#include <unmask/policy/schedule/schedule.hpp>
#include <unmask/policy/schedule/slow_fast.hpp>
#include <unmask/policy/stop.hpp>
#include <unmask/session.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "support/by_name.hpp"

/// \file
/// Every decode ends within most_forwards(), whatever the rows.
namespace unmask::testing::ends_test {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ x >> 30U) * 0xbf58476d1ce4e5b9U;
  x = (x ^ x >> 27U) * 0x94d049bb133111ebU;
  return x ^ x >> 31U;
}

/// Defects of a row.
enum class trouble { none, nan, one_nan, minus_inf, plus_inf, masked, flat };
constexpr int troubles = 7;

/// An engine whose rows go wrong: at some positions always, at others in some steps.
struct hostile_engine {
  std::uint64_t seed = 0;
  index_t vocab = 0;
  int always = 0;     ///< of 100 positions, those that always are
  int sometimes = 0;  ///< of 100 other rows
  trouble only = trouble::none;

  [[nodiscard]] trouble at(index_t position, index_t step) const {
    const std::uint64_t of_position = mixed(seed * 977 + static_cast<std::uint64_t>(position));
    const std::uint64_t of_row = mixed(of_position + static_cast<std::uint64_t>(step) * 7919);
    const bool stays = static_cast<int>(of_position % 100) < always;
    if (!stays && static_cast<int>(of_row % 100) >= sometimes) {
      return trouble::none;
    }
    if (only != trouble::none) {
      return only;
    }
    return static_cast<trouble>((stays ? of_position : of_row) / 100 % troubles);
  }

  [[nodiscard]] std::vector<float> row(index_t position, index_t step) const {
    std::vector<float> z(static_cast<std::size_t>(vocab));
    for (std::size_t v = 0; v < z.size(); ++v) {
      const std::uint64_t bits =
          mixed(seed + static_cast<std::uint64_t>(position) * 31 +
                static_cast<std::uint64_t>(step) * 1009 + static_cast<std::uint64_t>(v) * 65537);
      z[v] = static_cast<float>(bits % 4096) / 512.0F;
    }
    switch (at(position, step)) {
    case trouble::nan:
      z.assign(z.size(), not_a_number);
      break;
    case trouble::one_nan:
      z[z.size() / 2] = not_a_number;
      break;
    case trouble::minus_inf:
      z.assign(z.size(), -inf);
      break;
    case trouble::plus_inf:
      z[z.size() / 2] = inf;
      break;
    case trouble::flat:
      z.assign(z.size(), 1.0F);
      break;
    case trouble::none:
    case trouble::masked:
      break;
    }
    return z;
  }
};

constexpr index_t vocab = 12;
constexpr model_info model = {.vocab = vocab, .mask_token = 11};

/// Decodes to the end, or one forward pass beyond the bound.
template <class Policy>
sequence_report decode(const Policy& composed,
                       sequence_shape g,
                       const hostile_engine& engine,
                       const model_info& of = model,
                       std::int64_t beyond = 0) {
  std::vector<token_id> tokens(static_cast<std::size_t>(g.length), 0);
  const auto p = by_name(composed);
  session s{p, of, tokens_view<memory::host>(tokens), g};
  const std::int64_t most = most_forwards(p, g) + beyond;
  std::vector<std::uint32_t> words;
  while (const auto request = s.next()) {
    if (s.report().forwards > most) {
      break;
    }
    std::vector<float> logits;
    words.clear();
    for (const segment& part : request->segments) {
      for (index_t r = part.rows.first; r < part.rows.last; ++r) {
        const std::vector<float> z = engine.row(r, s.report().forwards);
        logits.insert(logits.end(), z.begin(), z.end());
        words.push_back(engine.at(r, s.report().forwards) == trouble::masked ? 0U : ~0U);
      }
    }
    row_modifiers<float> modifiers;
    modifiers.allowed = words.data();
    modifiers.allowed_stride = 1;
    s.supply(host_logits<float>(logits.data(), request->rows, vocab), modifiers);
  }
  return s.report();
}

/// Engines from valid rows to invalid ones only.
std::vector<hostile_engine> engines(std::uint64_t seed) {
  std::vector<hostile_engine> all;
  for (const auto [always, sometimes] :
       {std::array{0, 0}, std::array{10, 0}, std::array{0, 30}, std::array{30, 30}}) {
    all.push_back({seed, vocab, always, sometimes, trouble::none});
  }
  for (int k = 1; k < troubles; ++k) {
    all.push_back({seed, vocab, 100, 0, static_cast<trouble>(k)});
    all.push_back({seed, vocab, 15, 0, static_cast<trouble>(k)});
  }
  return all;
}

/// Decodes on all engines; `extra` is what the composition may take beside a pass for a position.
template <class Policy>
void expect_ends(const Policy& p, std::int64_t extra, ending usual = ending::complete) {
  for (const sequence_shape g :
       {sequence_shape{.prompt_length = 3, .length = 27, .block_length = 8, .seed = 5},
        sequence_shape{.prompt_length = 0, .length = 7, .block_length = 7},
        sequence_shape{.prompt_length = 2, .length = 15, .block_length = 1}}) {
    EXPECT_EQ(most_forwards(p, g), g.length - g.prompt_length + extra);
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      for (const hostile_engine& e : engines(seed)) {
        const sequence_report r = decode(p, g, e);
        EXPECT_LE(r.forwards, most_forwards(p, g));
        EXPECT_EQ(r.end, usual);
        EXPECT_EQ(r.masked, 0);
        ASSERT_FALSE(::testing::Test::HasFailure())
            << "length " << g.length << ", seed " << seed << ", always " << e.always
            << ", sometimes " << e.sometimes << ", trouble " << static_cast<int>(e.only);
      }
    }
  }
}

TEST(decodes, end_with_every_commit_rule) {
  expect_ends(policy{by_confidence{}, threshold{0.99F}}, 0);
  expect_ends(policy{by_margin{}, tokens_per_step{3}}, 0);
  expect_ends(policy{by_entropy{}, entropy_bound{0.01F}}, 0);
  expect_ends(policy{by_confidence{}, steps_per_block{4}}, 0);
  expect_ends(policy{by_confidence{}, hierarchical{0.5F, 0.9F}}, 0);
  expect_ends(policy{by_confidence{}, factor{}, block_pipeline{.at_once = 3}}, 0);
  expect_ends(policy{by_confidence{}, threshold{0.9F}, slow_fast{}}, 0);
  expect_ends(policy{by_confidence{}, threshold{0.9F} && at_frontier{.reach = 2}}, 0);
  expect_ends(policy{by_confidence{}, threshold{0.9F}, lookahead{.branches = 2}}, 0);
}

TEST(decodes, end_with_commit_rules_that_wait) {
  expect_ends(policy{by_confidence{}, timesteps{8}}, 7);
  expect_ends(policy{by_confidence{}, timesteps{8}, single_block{}}, 7);
  expect_ends(policy{by_confidence{}, independent_timesteps{5}}, 4);
  expect_ends(policy{by_confidence{}, timesteps{8} || tokens_per_step{2}}, 7);
  expect_ends(policy{by_confidence{}, timesteps{8} && threshold{0.99F}}, 7);
  expect_ends(policy{by_confidence{}, timesteps{8} && independent_timesteps{3}}, 7);
  expect_ends(policy{by_confidence{}, timesteps{6}, block_pipeline{.at_once = 3}}, 5);
  expect_ends(policy{by_confidence{}, timesteps{1}}, 0);
}

TEST(decodes, end_where_committed_positions_compete_again) {
  expect_ends(policy{by_confidence{}, threshold{0.1F, true}, remask_below{0.4F}}, 0);
  expect_ends(policy{by_confidence{}, threshold{0.9F}, remask_below{1.0F}}, 0);
  expect_ends(policy{by_confidence{}, timesteps{8}, remask_below{0.6F}}, 7);
  expect_ends(policy{by_confidence{}, threshold{0.1F, true}, remask_below{0.6F}, single_block{}},
              0);
  expect_ends(
      policy{by_confidence{}, tokens_per_step{3}, remask_below{0.6F}, block_pipeline{.at_once = 3}},
      0);
}

/// Remasks every position that it is called for.
struct remasks_current_all {
  static constexpr statistics required = stat::confidence;
  UNMASK_HD verdict edit_token(const auto&, auto&) const { return verdict::remask; }
};

/// The same, with extra passes.
struct remasks_current_many {
  std::int64_t extra = 0;
  static constexpr statistics required = stat::confidence;
  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const sequence_shape&) const { return extra; }
  UNMASK_HD verdict edit_token(const auto&, auto&) const { return verdict::remask; }
};

/// Wide in, narrow out: everything a little sure comes in, everything not very sure goes out.
struct narrow_out {
  float below = 0.9F;
  static constexpr statistics required = stat::none;
  static constexpr bool tracks_current = true;
  UNMASK_HD verdict edit_token(const auto&, auto& context) const {
    return context.at.current_probability < below ? verdict::remask : verdict::keep;
  }
};

/// Lets everything compete again.
struct remasks_all {
  static constexpr statistics required = stat::confidence;
  UNMASK_HD bool remasks(const auto&, auto&) const { return true; }
};

TEST(decodes, end_where_committed_positions_are_remasked) {
  expect_ends(policy{by_confidence{}, threshold{0.1F, true}, remask_current_below{0.9F}}, 0);
  expect_ends(policy{by_confidence{}, threshold{0.1F, true}, remask_current_below{0.9F, 6}}, 6);
  expect_ends(policy{by_confidence{}, timesteps{8}, remask_current_below{0.9F, 6}}, 13);
  expect_ends(policy{by_confidence{}, threshold{0.3F}, narrow_out{}}, 0);
  expect_ends(policy{by_confidence{}, threshold{0.3F}, narrow_out{}, single_block{}}, 0);
  expect_ends(policy{by_confidence{}, tokens_per_step{1}, remasks_current_all{}}, 0);
  expect_ends(policy{by_confidence{}, tokens_per_step{4}, remasks_current_all{}, single_block{}},
              0);
  expect_ends(policy{by_confidence{}, tokens_per_step{4}, remasks_current_many{20}, single_block{}},
              20);
  expect_ends(policy{by_confidence{}, timesteps{5}, remasks_current_many{9}, remasks_current_all{}},
              13);
  expect_ends(policy{by_confidence{}, tokens_per_step{4}, remasks_current_all{}, remasks_all{}}, 0);
  expect_ends(
      policy{
          by_confidence{}, tokens_per_step{2}, remasks_current_all{}, block_pipeline{.at_once = 2}},
      0);
}

/// A commit rule that commits nothing and does not declare it.
struct commits_nothing {
  static constexpr statistics required = stat::none;
  UNMASK_HD bool commits(const auto&, const rank_info&) const { return false; }
};

/// Bars every candidate.
struct bars_all {
  static constexpr statistics required = stat::none;
  UNMASK_HD filter_result filter(const auto&, const auto&) const { return filter_result::excluded; }
};

/// A schedule that forces nothing.
struct forces_nothing {
  static constexpr statistics required = stat::none;
  using sequence_state = semi_autoregressive::sequence_state;
  UNMASK_HD void schedule(sequence_view& q, plan& next, auto& context) const {
    semi_autoregressive{}.schedule(q, next, context);
    next.forced = 0;
  }
};

/// A schedule that stays on the first block.
struct stays {
  static constexpr statistics required = stat::none;
  UNMASK_HD void schedule(sequence_view& q, plan& next, auto&) const {
    next.score = q.block(0);
    next.last_block = 1;
    next.forced = 1;
  }
};

TEST(decodes, end_with_parts_that_would_never) {
  expect_ends(policy{by_confidence{}, commits_nothing{}}, 0);
  expect_ends(policy{by_confidence{}, commits_nothing{}, forces_nothing{}}, 0);
  expect_ends(policy{by_confidence{}, commits_nothing{}, forces_nothing{}, bars_all{}}, 0);
  const sequence_report r = decode(policy{by_confidence{}, tokens_per_step{1}, stays{}},
                                   {.prompt_length = 1, .length = 10, .block_length = 4},
                                   {.vocab = vocab});
  EXPECT_EQ(r.end, ending::max_steps);
  EXPECT_EQ(r.forwards, 9);
  EXPECT_EQ(r.masked, 5);
  const sequence_report but_one = decode(policy{by_confidence{}, tokens_per_step{1}, stays{}},
                                         {.prompt_length = 1, .length = 6, .block_length = 4},
                                         {.vocab = vocab});
  EXPECT_EQ(but_one.end, ending::max_steps);
  EXPECT_EQ(but_one.forwards, 5);
  EXPECT_EQ(but_one.masked, 1);
}

TEST(decodes, end_where_full_blocks_are_edited) {
  for (const sequence_shape g :
       {sequence_shape{.prompt_length = 3, .length = 27, .block_length = 8},
        sequence_shape{.prompt_length = 0, .length = 7, .block_length = 7}}) {
    const policy p{by_confidence{}, threshold{0.9F}, edit_committed{}, edited_blocks{3}};
    EXPECT_EQ(most_forwards(p, g),
              g.length - g.prompt_length + 3 * ((g.length - g.prompt_length + 7) / 8));
    const policy q{by_confidence{},
                   tokens_per_step{2},
                   edit_committed{},
                   remask_current_below{1.0F, 5},
                   edited_blocks{3}};
    for (const hostile_engine& e : engines(7)) {
      const sequence_report r = decode(p, g, e);
      EXPECT_LE(r.forwards, most_forwards(p, g));
      EXPECT_EQ(r.end, ending::complete);
      EXPECT_LE(decode(q, g, e).forwards, most_forwards(q, g));
      EXPECT_EQ(decode(q, g, e).end, ending::complete);
    }
  }
}

/// Released loops, which may leave masks behind.
template <class Policy>
void expect_released_ends(const Policy& p) {
  for (const sequence_shape g :
       {sequence_shape{.prompt_length = 3, .length = 27, .block_length = 8},
        sequence_shape{.prompt_length = 2, .length = 15, .block_length = 4}}) {
    for (const hostile_engine& e : engines(9)) {
      const sequence_report r = decode(p, g, e);
      EXPECT_LE(r.forwards, most_forwards(p, g));
      EXPECT_NE(r.end, ending::running);
    }
  }
}

// Rows of equal logits propose token 0, which is the mask token here.
TEST(decodes, end_with_a_budget_where_the_mask_token_may_be_proposed) {
  const sequence_shape g = {.prompt_length = 3, .length = 27, .block_length = 8};
  const model_info of = {.vocab = vocab, .mask_token = 0, .suppress_mask = false};
  const hostile_engine flat = {1, vocab, 30, 0, trouble::flat};
  for (const index_t steps : {20, 90}) {
    const sequence_report r =
        decode(policy{by_confidence{}, tokens_per_step{2}, max_steps{steps}}, g, flat, of, 100);
    EXPECT_EQ(r.end, ending::max_steps);
    EXPECT_EQ(r.forwards, steps);
  }
}

TEST(decodes, end_in_released_loops) {
  expect_released_ends(released::dream(by_confidence{}, 8));
  expect_released_ends(released::dream_confidence_threshold(6, 0.9F));
  expect_released_ends(released::llada_low_confidence(4));
  expect_released_ends(released::fast_dllm_threshold(0.9F, 2));
  expect_released_ends(released::sglang_low_confidence(0.9F));
  expect_released_ends(released::sglang_joint_threshold(0.9F, 0.0F, 4));
  expect_released_ends(released::dinfer_threshold(0.9F));
  expect_released_ends(released::dinfer_hierarchy_remask(0.4F, 0.9F, 0.5F));
  expect_released_ends(released::dinfer_credit(0.9F));
  expect_released_ends(released::d2f(by_confidence{}, 0.9F));
}

}  // namespace
}  // namespace unmask::testing::ends_test
