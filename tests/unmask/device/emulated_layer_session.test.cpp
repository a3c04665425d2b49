// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An engine on a stream that never waits inside a pass: its kernels take the lists that the session
// leaves on the device. Beside the same engine on the host; with a policy composed in C++, and with
// policies by name.

#include <unmask/core/policy.hpp>
#include <unmask/named_policy.hpp>
#include <unmask/policy/cache/cache.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/layers/early_skip.hpp>
#include <unmask/policy/ranking.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/sessions_beside.hpp"
#include "unmask/device/streamed_engine.hpp"

namespace unmask::testing::emulated_layer_session_test {
namespace {

using namespace streamed;

template <class Policy>
void decode_beside(const Policy& p) {
  sequence_report expected_report;
  const std::vector<token_id> expected = decode_on_the_host(p, expected_report);
  sequence_on_a_stream<Policy> q(p);
  auto& s = q.session;
  int passes = 0;
  while (s.next() && ++passes <= length) {  // each commits a token
    auto calls = fake_cuda().calls;
    const int waits = fake_cuda().waits;
    q.enqueue();
    EXPECT_EQ(fake_cuda().waits, waits) << "waited inside a pass";
    calls["launch"] = fake_cuda().calls["launch"];
    EXPECT_EQ(fake_cuda().calls, calls) << "a pass is launches and nothing else";
  }
  EXPECT_EQ(q.tokens, expected);
  expect_equal(s.report(0), expected_report);
  EXPECT_EQ(s.report(0).end, ending::complete);
}

TEST(EmulatedLayerSession, APassWaitsForNothing) {
  decode_beside(
      policy{by_confidence{}, tokens_per_step{2}, early_skip{.weight = 0.3F}, dual_cache{}});
}

TEST(EmulatedLayerPolicies, APassWaitsForNothing) {
  for (const char* const text :
       {"threshold(0.6) + early_skip + block_cache(6, 4)",
        "tokens_per_step(2) + early_skip + delayed_cache(5)",
        "tokens_per_step(2) + cache_budget(5, 4) + interval_cache(4, 5)",
        "by_margin + tokens_per_step(1) + similarity_refresh + prefix_cache",
        "dynamic_dllm(budget=5, window=4, start=0.7)",
        "es_dllm_parallel(0.6)",
        "tokens_per_step(2) + delayed_cache(3)",
        "tokens_per_step(2) + prefix_cache(3)"}) {
    SCOPED_TRACE(text);
    decode_beside(read_policy(text));
  }
}

/// No pass has computed the positions of the block: the host allows for all of them.
TEST(EmulatedLayerPolicies, ABlockMayJoinWithoutARefresh) {
  decode_beside(read_policy("tokens_per_step(1) + early_skip + block_pipeline(0.1)"));
}

/// The host's upper bound for a selection: the share of the positions that enter, and a row for the
/// guarantee that the block commits something.
TEST(EmulatedLayerSession, TheHostKnowsHowManyRowsThereCanBe) {
  policy p{by_confidence{}, tokens_per_step{2}, early_skip{}, dual_cache{}};
  sequence_on_a_stream<decltype(p)> q(p);
  auto& s = q.session;
  ASSERT_TRUE(s.next() && s.planned(0).refresh);
  q.enqueue();
  ASSERT_TRUE(s.next() && !s.planned(0).refresh);
  auto pass = s.pass(0);
  EXPECT_EQ(pass.positions().most, 12);
  const device_state<float> stored(q.engine.stored.data(), length, width);
  const auto half =
      pass.at_layer(1, device_hidden<float>(q.engine.hidden.data(), 12, width), stored);
  EXPECT_EQ(half.rows.most, 6 + 1);
  EXPECT_EQ(half.positions.most, 6 + 1);
  EXPECT_EQ(pass.positions().most, 6 + 1);
  const auto quarter =
      pass.at_layer(2, device_hidden<float>(q.engine.hidden.data(), 7, width), stored);
  EXPECT_EQ(quarter.rows.most, 3 + 1);
  EXPECT_EQ(pass.rows().most, 3 + 1);
  fake_drain(&q.stream);
  EXPECT_GE(quarter.rows.size(), 3);
}

TEST(EmulatedLayerSession, IsCancelledAfterAPassThatFailedBehindAHook) {
  const policy p{by_confidence{}, tokens_per_step{2}, early_skip{}, dual_cache{}};
  sequence_report expected_report;
  const std::vector<token_id> expected = decode_on_the_host(p, expected_report);
  sequence_on_a_stream<std::remove_const_t<decltype(p)>> q(p);
  auto& s = q.session;
  for (int pass = 0; pass < 2; ++pass) {
    ASSERT_TRUE(s.next());
    q.enqueue();
  }
  ASSERT_TRUE(s.next());
  auto pass = s.pass(0);
  pass.at_layer(1,
                device_hidden<float>(q.engine.hidden.data(), pass.positions().most, width),
                device_state<float>(q.engine.stored.data(), length, width));
  EXPECT_THROW(s.abandon(), std::logic_error);
  EXPECT_EQ(s.cancel_request().size(), 1U);
  EXPECT_FALSE(s.next());
  EXPECT_EQ(s.report(0).end, ending::cancelled);
  q.tokens.assign(length, 2);
  s.start(0, p, {q.tokens.data(), length}, shape);
  while (s.next()) {
    q.enqueue();
  }
  EXPECT_EQ(q.tokens, expected);
  expect_equal(s.report(0), expected_report);
}

/// An engine that captured a pass which skips and replays it, some times too often, while the host
/// looks away; returns how many it captured.
template <class Policy>
int decode_with_replays(const Policy& p) {
  sequence_report expected_report;
  const std::vector<token_id> expected = decode_on_the_host(p, expected_report);
  sequence_on_a_stream<Policy> q(p);
  auto& s = q.session;
  int captures = 0;
  while (s.next() && captures < 100) {
    if (s.planned(0).refresh) {
      q.enqueue();
      continue;
    }
    ++captures;
    const captured_calls step(&q.stream, [&] { q.enqueue(); });
    step.replay(15);
    fake_drain(&q.stream);
  }
  EXPECT_EQ(q.tokens, expected);
  EXPECT_EQ(s.report(0).forwards, expected_report.forwards);
  EXPECT_EQ(s.report(0).committed, expected_report.committed);
  EXPECT_EQ(s.report(0).end, ending::complete);
  return captures;
}

TEST(EmulatedLayerSession, AReplayedPassGoesOnUntilItDoesNotFit) {
  // The pass that begins the next block runs everything.
  const policy p{by_confidence{}, tokens_per_step{1}, early_skip{}, dual_cache{}};
  EXPECT_EQ(decode_with_replays(p), 3);
}

TEST(EmulatedLayerPolicies, AReplayedPassGoesOnUntilItDoesNotFit) {
  // Every fourth of 34 passes runs a block, too, and computes all of it at every layer.
  const std::string cache = "block_cache(0, 4, reaches_back=false)";
  for (const std::string rule : {"early_skip + ", "similarity_refresh + "}) {
    EXPECT_EQ(decode_with_replays(read_policy("tokens_per_step(1) + " + rule + cache)), 9) << rule;
  }
}

TEST(EmulatedLayerSession, NamesWhatIsWrongBeforeAnythingIsEnqueued) {
  policy p{by_confidence{}, tokens_per_step{1}, early_skip{}, dual_cache{}};
  sequence_on_a_stream<decltype(p)> q(p);
  auto& s = q.session;
  ASSERT_TRUE(s.next());
  auto pass = s.pass(0);
  const device_hidden<float> rows(q.engine.hidden.data(), length, width);
  const device_state<float> stored(q.engine.stored.data(), length, width);
  const device_logits<float> logits(q.engine.logits.data(), 12, vocab);
  const int launches = fake_cuda().launches;
  EXPECT_THROW(pass.at_layer(0, rows, stored), std::logic_error);  // no hook there
  EXPECT_THROW(pass.at_layer(2, rows, stored), std::logic_error);  // the one at 1 was not called
  EXPECT_THROW(pass.at_layer(6, rows, stored), std::invalid_argument);
  EXPECT_THROW(pass.at_layer(1, rows.subrows({0, 39}), stored), std::invalid_argument);
  EXPECT_THROW(pass.at_layer(1, rows, device_state<float>(q.engine.stored.data(), length, 3)),
               std::invalid_argument);
  EXPECT_THROW(s.read(0, logits), std::logic_error);  // the hooks were not called
  EXPECT_EQ(fake_cuda().launches, launches);
  EXPECT_EQ(pass.at_layer(1, rows, stored).rows.most, length);
  EXPECT_THROW(pass.at_layer(1, rows, stored), std::logic_error);  // behind it
  EXPECT_EQ(pass.at_layer(2, rows, stored).rows.most, length);
  EXPECT_THROW(s.read(0, device_logits<float>(q.engine.logits.data(), 11, vocab)),
               std::invalid_argument);
  s.read(0, logits);
  s.decide();
  EXPECT_EQ(s.report(0).forwards, 1);
}

/// Launches that a hook of 18 segments takes.
int launches_together(auto& s, cudaStream_t stream) {
  EXPECT_EQ(s.next()->segments.size(), 18U);
  const std::vector<float> hidden(std::size_t{length} * width, 1.0F);
  std::vector<float> stored(18U * length * width);
  std::vector<device_layer_hook<float>> hooks;
  for (std::size_t i = 0; i < 18; ++i) {
    float* const previous = stored.data() + i * length * width;
    hooks.push_back({i, {hidden.data(), length, width}, {previous, length, width}, {}});
  }
  index_t layer = 0;
  while (!s.pass(0).hooks(layer)) {
    ++layer;
  }
  auto calls = fake_cuda().calls;
  const int launches = fake_cuda().launches;
  s.at_layer(layer, std::span(hooks));
  const int taken = fake_cuda().launches - launches;
  calls["launch"] += taken;
  EXPECT_EQ(fake_cuda().calls, calls) << "launches and nothing else";
  fake_drain(stream);
  EXPECT_EQ(stored, std::vector<float>(stored.size(), 1.0F));
  for (const device_layer_hook<float>& h : hooks) {
    EXPECT_EQ(h.chosen.rows.size(), length);
  }
  return taken;
}

template <class Policy>
int launches_of_a_hook(const Policy& p) {
  CUstream_st stream;
  std::vector<token_id> tokens(18 * length, 2);
  session<Policy, on_stream> s(
      model, {.sequences = 18, .length = length, .window = 12}, on_stream{&stream});
  for (index_t slot = 0; slot < 18; ++slot) {
    s.start(slot, p, {tokens.data() + slot * length, length}, shape);
  }
  return launches_together(s, &stream);
}

TEST(EmulatedLayerSession, SixteenSegmentsShareALaunch) {
  const policy p{by_confidence{}, tokens_per_step{2}, early_skip{}, dual_cache{}};
  EXPECT_EQ(launches_of_a_hook(p), 4);
}

TEST(EmulatedLayerPolicies, SixteenSegmentsShareALaunch) {
  const policy p{by_margin{}, tokens_per_step{1}, similarity_refresh{}, prefix_cache{}};
  EXPECT_EQ(launches_of_a_hook(p), 2);
}

}  // namespace
}  // namespace unmask::testing::emulated_layer_session_test
