// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The C interface as a library built with a device serves it, with emulated kernels and a fake
// runtime: it decodes what it decodes on the host.

#include <unmask/c_layers.h>
#include <unmask/c_parts.h>
#include <unmask/cuda/c_device.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "support/c_calls.hpp"
#include "support/fake_logits.hpp"
#include "unmask/device/emulated_launches.hpp"

// The instances of c_library.cuh in a library with a device.
template class unmask::on_stream::workspace<unmask::named_policy>;
template cudaError_t unmask::device::launch_scores(const key_products<float>&,
                                                   cudaStream_t) noexcept;
template cudaError_t unmask::device::launch_scores(const key_products<bfloat16>&,
                                                   cudaStream_t) noexcept;
template cudaError_t unmask::device::launch_scores(const key_products<float16>&,
                                                   cudaStream_t) noexcept;
template cudaError_t unmask::device::launch_selection(const selection_arguments<float>&,
                                                      cudaStream_t) noexcept;

namespace unmask::testing::emulated_test {
namespace {

using ::testing::HasSubstr;

constexpr std::int32_t vocab = 50;

[[nodiscard]] unmask_options options_on(cudaStream_t stream) {
  unmask_options o = UNMASK_OPTIONS_INIT;
  o.memory_space = stream == nullptr ? UNMASK_HOST : UNMASK_DEVICE;
  o.stream = stream;
  o.vocab = vocab;
  o.mask_token = vocab - 1;
  o.sequences = 2;
  o.length = 14;
  o.window = 6;
  o.trace = 1;
  return o;
}

[[nodiscard]] unmask_logits
logits_in(const std::vector<float>& z, std::int32_t space, std::int32_t rows) {
  unmask_logits l = c_logits(z, vocab);
  l.memory_space = space;
  l.rows = rows;
  return l;
}

/// All results of a decode of two sequences.
[[nodiscard]] std::vector<std::vector<std::int32_t>> decoded(const char* policy,
                                                             cudaStream_t stream) {
  const session_pointer s = made(policy, options_on(stream));
  const fake_model model{.seed = 3, .vocab = vocab};
  std::vector<std::vector<std::int32_t>> said(2, std::vector<std::int32_t>(14, 4));
  std::vector<std::uint8_t> editable(14, 1);
  editable[9] = 0;
  for (std::int32_t slot = 0; slot < 2; ++slot) {
    unmask_sequence q = UNMASK_SEQUENCE_INIT;
    q.prompt_length = 2 + slot;
    q.length = 14;
    q.block_length = 6;
    q.editable = editable.data();
    EXPECT_EQ(unmask_start(s.get(), slot, said[std::size_t(slot)].data(), 14, &q), UNMASK_OK)
        << unmask_last_error();
  }
  said.emplace_back();
  unmask_request request = UNMASK_REQUEST_INIT;
  while (unmask_next(s.get(), &request) == UNMASK_OK && request.count > 0) {
    std::vector<float> z;
    for (std::int32_t k = 0; k < request.count; ++k) {
      const unmask_segment& g = request.segments[k];
      for (std::int32_t r = g.row_first; r < g.row_last; ++r) {
        z.resize(z.size() + std::size_t{vocab});
        model.row<float>(said[std::size_t(g.slot)], r, std::span(z).last(std::size_t{vocab}));
      }
    }
    const unmask_logits l =
        logits_in(z, stream == nullptr ? UNMASK_HOST : UNMASK_DEVICE, request.rows);
    EXPECT_EQ(unmask_supply(s.get(), &l), UNMASK_OK) << unmask_last_error();
    for (std::int32_t slot = 0; slot < 2; ++slot) {  // waits, and the logits may go
      const unmask_candidate* entries = nullptr;
      std::int32_t count = 0;
      EXPECT_EQ(unmask_candidates(s.get(), slot, sizeof(unmask_candidate), &entries, &count),
                UNMASK_OK);
      unmask_plan plan = UNMASK_PLAN_INIT;
      EXPECT_EQ(unmask_get_plan(s.get(), slot, &plan), UNMASK_OK);
      said[2].insert(said[2].end(),
                     {plan.winner, plan.freeze_first, plan.freeze_last, plan.refresh});
      for (std::int32_t i = 0; i < count; ++i) {
        said[2].insert(said[2].end(),
                       {entries[i].position,
                        entries[i].token,
                        entries[i].committed,
                        entries[i].outcome,
                        entries[i].part,
                        std::bit_cast<std::int32_t>(entries[i].confidence),
                        std::bit_cast<std::int32_t>(entries[i].margin),
                        std::bit_cast<std::int32_t>(entries[i].entropy)});
      }
    }
  }
  for (std::int32_t slot = 0; slot < 2; ++slot) {
    unmask_report report = UNMASK_REPORT_INIT;
    EXPECT_EQ(unmask_get_report(s.get(), slot, &report), UNMASK_OK);
    said.push_back({report.end, report.forwards, report.committed, report.committed_prefix});
    EXPECT_GT(report.forwards, 2);
  }
  return said;
}

TEST(CApiOnADevice, DecodesWhatItDecodesOnTheHost) {
  CUstream_st stream;
  const char* const policy = "by_margin + threshold(0.4) + trace_credit + temperature(0.9)";
  EXPECT_EQ(decoded(policy, &stream), decoded(policy, nullptr));
  EXPECT_TRUE(fake_cuda().alive.empty()) << "a session left memory behind";
}

TEST(CApiOnADevice, RefusesFunctionsOfTheHost) {
  unmask_part p = UNMASK_PART_INIT;
  p.name = "of_the_host";
  p.function = [](void*, const unmask_step*, float*) { return std::int32_t{0}; };
  ASSERT_EQ(unmask_register_part(&p), UNMASK_OK) << unmask_last_error();
  CUstream_st stream;
  const unmask_options o = options_on(&stream);
  unmask_session* none = nullptr;
  EXPECT_EQ(unmask_create("any_of(threshold(0.9), of_the_host)", &o, &none),
            UNMASK_INVALID_ARGUMENT);
  EXPECT_THAT(unmask_last_error(), HasSubstr("a session on a device cannot call them"));
  EXPECT_THAT(unmask_last_error(), HasSubstr("got of_the_host"));
  const session_pointer s = made("threshold(0.9)", o);
  std::vector<std::int32_t> tokens(14, 4);
  unmask_sequence q = UNMASK_SEQUENCE_INIT;
  q.length = 14;
  q.block_length = 6;
  q.policy = "of_the_host";
  EXPECT_EQ(unmask_start(s.get(), 0, tokens.data(), 14, &q), UNMASK_INVALID_ARGUMENT);
  EXPECT_THAT(unmask_last_error(), HasSubstr("got of_the_host"));
  q.policy = nullptr;
  EXPECT_EQ(unmask_start(s.get(), 0, tokens.data(), 14, &q), UNMASK_OK) << unmask_last_error();
}

/// Tokens of two sequences with policies, bitmasks and guidance of their own, one of which is left
/// out of every third pass; a tensor for each segment.
[[nodiscard]] std::vector<std::vector<std::int32_t>> served(const char* const (&policies)[2],
                                                            cudaStream_t stream) {
  const session_pointer s = made("threshold(0.9)", options_on(stream));
  const fake_model model{.seed = 3, .vocab = vocab};
  std::vector<std::vector<std::int32_t>> tokens(2, std::vector<std::int32_t>(14, 4));
  for (std::int32_t slot = 0; slot < 2; ++slot) {
    unmask_sequence q = UNMASK_SEQUENCE_INIT;
    q.prompt_length = 2;
    q.length = 14;
    q.block_length = 6;
    q.policy = policies[slot];
    EXPECT_EQ(unmask_start(s.get(), slot, tokens[std::size_t(slot)].data(), 14, &q), UNMASK_OK)
        << unmask_last_error();
  }
  const std::vector<std::vector<std::uint32_t>> allowed{{0xaaaaaaaa, 0xaaaaaaaa},
                                                        {0x55555555, 0x55555555}};
  const std::vector<float> unconditional(std::size_t{vocab}, 0.5F);
  for (int pass = 0; pass < 1000; ++pass) {
    const std::int32_t slots[] = {1, 0};
    unmask_request request = UNMASK_REQUEST_INIT;
    EXPECT_EQ(unmask_next_slots(s.get(), slots, pass % 3 == 2 ? 1 : 2, &request), UNMASK_OK);
    std::vector<std::vector<float>> z;
    std::vector<unmask_logits> tensors;
    std::vector<unmask_modifiers> modifiers;
    for (std::int32_t k = 0; k < request.count; ++k) {
      const unmask_segment& g = request.segments[k];
      z.emplace_back();
      for (std::int32_t r = g.row_first; r < g.row_last; ++r) {
        z.back().resize(z.back().size() + std::size_t{vocab});
        model.row<float>(
            tokens[std::size_t(g.slot)], r, std::span(z.back()).last(std::size_t{vocab}));
      }
      tensors.push_back(logits_in(
          z.back(), stream == nullptr ? UNMASK_HOST : UNMASK_DEVICE, g.row_last - g.row_first));
      unmask_modifiers m = UNMASK_MODIFIERS_INIT;
      m.allowed = allowed[std::size_t(g.slot)].data();
      m.unconditional = unconditional.data();
      m.cfg_scale = static_cast<float>(g.slot);
      modifiers.push_back(m);
    }
    if (request.count > 0) {
      EXPECT_EQ(unmask_supply_segments(s.get(), tensors.data(), modifiers.data(), 0),
                UNMASK_INVALID_ARGUMENT);
      EXPECT_EQ(unmask_supply_segments(s.get(), tensors.data(), modifiers.data(), request.count),
                UNMASK_OK)
          << unmask_last_error();
    }
    unmask_report reports[] = {UNMASK_REPORT_INIT, UNMASK_REPORT_INIT};
    EXPECT_EQ(unmask_get_report(s.get(), 0, &reports[0]), UNMASK_OK);  // waits
    EXPECT_EQ(unmask_get_report(s.get(), 1, &reports[1]), UNMASK_OK);
    if (reports[0].end != UNMASK_RUNNING && reports[1].end != UNMASK_RUNNING) {
      tokens.push_back({reports[0].forwards, reports[1].forwards});
      return tokens;
    }
  }
  ADD_FAILURE() << "did not end";
  return tokens;
}

TEST(CApiOnADevice, ServesRequestsWithPoliciesOfTheirOwn) {
  CUstream_st stream;
  const auto mixed = served({"trace_credit + threshold(0.4)", "tokens_per_step(3)"}, nullptr);
  EXPECT_EQ(mixed, served({"trace_credit + threshold(0.4)", "tokens_per_step(3)"}, &stream));
  EXPECT_EQ(mixed[2][1], 4) << "12 tokens, three in each pass";
  for (std::size_t p = 2; p < 14; ++p) {
    EXPECT_EQ(mixed[0][p] % 2, 1);
    EXPECT_EQ(mixed[1][p] % 2, 0);
  }
  // A sequence is as beside another policy, of another type, too.
  const auto other =
      served({"trace_credit + threshold(0.4)", "remask_below(0.1) + threshold(0.5)"}, nullptr);
  EXPECT_EQ(mixed[0], other[0]);
  EXPECT_EQ(mixed[2][0], other[2][0]);
  const auto own = served({nullptr, "threshold(0.9)"}, nullptr);
  EXPECT_EQ(own, served({"threshold(0.9)", nullptr}, nullptr));
}

TEST(CApiOnADevice, HasTheLayerRuleOfEachSegment) {
  unmask_options options = options_on(nullptr);
  options.layers = 4;
  const session_pointer s = made("threshold(0.9)", options);
  std::vector<std::vector<std::int32_t>> tokens(2, std::vector<std::int32_t>(6));
  unmask_sequence q = UNMASK_SEQUENCE_INIT;
  q.length = 6;
  ASSERT_EQ(unmask_start(s.get(), 0, tokens[0].data(), 6, &q), UNMASK_OK) << unmask_last_error();
  q.policy = "threshold(0.5) + early_skip + block_cache(16, 4)";
  ASSERT_EQ(unmask_start(s.get(), 1, tokens[1].data(), 6, &q), UNMASK_OK) << unmask_last_error();
  unmask_request request = UNMASK_REQUEST_INIT;
  ASSERT_EQ(unmask_next(s.get(), &request), UNMASK_OK);
  ASSERT_EQ(request.count, 2);
  unmask_layer_rule rule = UNMASK_LAYER_RULE_INIT;
  ASSERT_EQ(unmask_get_layer_rule(s.get(), &rule), UNMASK_OK);
  EXPECT_EQ(rule.has_hooks, 0);
  for (std::int32_t k = 0; k < 2; ++k) {
    ASSERT_EQ(unmask_get_segment_rule(s.get(), k, &rule), UNMASK_OK);
    EXPECT_EQ(rule.has_hooks, request.segments[k].slot);
    EXPECT_EQ(rule.single_positions, request.segments[k].slot);
  }
  EXPECT_EQ(unmask_get_segment_rule(s.get(), 2, &rule), UNMASK_INVALID_ARGUMENT);
}

TEST(CApiOnADevice, RefusesAPolicyThatIsNone) {
  const session_pointer s = made("threshold(0.9)", options_on(nullptr));
  std::vector<std::int32_t> tokens(6);
  unmask_sequence q = UNMASK_SEQUENCE_INIT;
  q.length = 6;
  q.policy = "treshold(0.9)";
  EXPECT_EQ(unmask_start(s.get(), 0, tokens.data(), 6, &q), UNMASK_INVALID_ARGUMENT);
  EXPECT_THAT(unmask_last_error(), HasSubstr("treshold"));
  unmask_request request = UNMASK_REQUEST_INIT;
  EXPECT_EQ(unmask_next(s.get(), &request), UNMASK_OK);
  EXPECT_EQ(request.count, 0);
  const std::int32_t twice[] = {0, 0};
  EXPECT_EQ(unmask_next_slots(s.get(), twice, 2, &request), UNMASK_INVALID_ARGUMENT);
  EXPECT_EQ(unmask_next_slots(s.get(), nullptr, 2, &request), UNMASK_INVALID_ARGUMENT);
}

TEST(CApiOnADevice, SuppliesWithoutWaiting) {
  CUstream_st stream;
  const session_pointer s = made("tokens_per_step(2)", options_on(&stream));
  std::vector<std::int32_t> tokens(6);
  unmask_sequence q = UNMASK_SEQUENCE_INIT;
  q.length = 6;
  q.block_length = 6;
  ASSERT_EQ(unmask_start(s.get(), 0, tokens.data(), 6, &q), UNMASK_OK);
  unmask_request request = UNMASK_REQUEST_INIT;
  ASSERT_EQ(unmask_next(s.get(), &request), UNMASK_OK);
  const std::vector<float> z(6 * vocab, 0.5F);
  const unmask_logits l = logits_in(z, UNMASK_DEVICE, 6);
  const int waits = fake_cuda().waits;
  ASSERT_EQ(unmask_supply(s.get(), &l), UNMASK_OK);
  EXPECT_EQ(fake_cuda().waits, waits);
  ASSERT_EQ(unmask_next(s.get(), &request), UNMASK_OK);
  EXPECT_EQ(request.count, 1);
}

TEST(CApiOnADevice, DecidesOnceFromTokensAndLogits) {
  std::vector<float> z(6 * std::size_t{vocab}, 0.0F);
  z[0 * vocab + 2] = 9.0F;
  z[4 * vocab + 7] = 9.0F;
  CUstream_st stream;
  const std::int32_t mask = vocab - 1;
  for (const bool marked : {false, true}) {
    std::vector<std::vector<std::int32_t>> tokens(2, {mask, 3, mask, mask, mask, 5});
    std::vector<std::vector<std::uint8_t>> transfer(2, std::vector<std::uint8_t>(6, 7));
    const std::vector<std::uint8_t> editable = {0, 0, 1, 1, 1, 0};
    for (std::size_t k = 0; k < 2; ++k) {
      const session_pointer s = made("threshold(0.7)", options_on(k == 0 ? nullptr : &stream));
      const unmask_logits l = logits_in(z, k == 0 ? UNMASK_HOST : UNMASK_DEVICE, 6);
      ASSERT_EQ(unmask_decide(s.get(),
                              1,
                              tokens[k].data(),
                              6,
                              marked ? editable.data() : nullptr,
                              0,
                              &l,
                              transfer[k].data()),
                UNMASK_OK)
          << unmask_last_error();
    }
    EXPECT_EQ(tokens[1], tokens[0]);
    EXPECT_EQ(transfer[1], transfer[0]);
    EXPECT_EQ(transfer[0],
              (std::vector<std::uint8_t>{std::uint8_t(marked ? 0 : 1), 0, 0, 0, 1, 0}));
  }
}

TEST(CApiOnADevice, SaysWhatIsWrong) {
  CUstream_st stream;
  unmask_session* s = nullptr;
  unmask_options o = options_on(&stream);
  o.memory_space = UNMASK_HOST;
  EXPECT_EQ(unmask_create("tokens_per_step", &o, &s), UNMASK_INVALID_ARGUMENT);
  EXPECT_THAT(unmask_last_error(), HasSubstr("options->stream must be null"));
  o = options_on(&stream);
  ASSERT_EQ(unmask_create("lookahead + adaptive_credit + tokens_per_step", &o, &s), UNMASK_OK);
  unmask_destroy(s);
  const std::string file = ::testing::TempDir() + "unmask_c_api_on_a_device.jsonl";
  std::ofstream(file)
      << R"({"format":"unmask-trace/1","model":{"vocab":50,"mask":49},"sequences":)"
      << R"([{"shape":{"prompt_length":0,"length":1,"block_length":1},"tokens":[49]}]})" << '\n';
  const std::string replay = "replay('" + file + "')";
  EXPECT_EQ(unmask_check_policy(replay.c_str()), UNMASK_OK) << unmask_last_error();
  EXPECT_EQ(unmask_create(replay.c_str(), &o, &s), UNMASK_UNSUPPORTED);
  EXPECT_THAT(unmask_last_error(), HasSubstr("a replay"));
  std::remove(file.c_str());
  fake_cuda().calls_until_failure = 3;
  EXPECT_EQ(unmask_create("tokens_per_step", &o, &s), UNMASK_OUT_OF_MEMORY) << unmask_last_error();
  EXPECT_EQ(s, nullptr);
  EXPECT_TRUE(fake_cuda().alive.empty());

  const session_pointer there = made("tokens_per_step", o);
  std::vector<std::int32_t> tokens(6);
  unmask_sequence q = UNMASK_SEQUENCE_INIT;
  q.length = 6;
  q.block_length = 6;
  ASSERT_EQ(unmask_start(there.get(), 0, tokens.data(), 6, &q), UNMASK_OK);
  unmask_request request = UNMASK_REQUEST_INIT;
  ASSERT_EQ(unmask_next(there.get(), &request), UNMASK_OK);
  const std::vector<float> z(6 * vocab, 0.5F);
  const unmask_logits l = logits_in(z, UNMASK_HOST, 6);
  EXPECT_EQ(unmask_supply(there.get(), &l), UNMASK_INVALID_ARGUMENT);
  EXPECT_THAT(unmask_last_error(), HasSubstr("host"));
}

}  // namespace
}  // namespace unmask::testing::emulated_test
