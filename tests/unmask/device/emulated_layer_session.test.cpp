// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An engine on a stream that never waits inside a pass: its kernels take the lists that the session
// leaves on the device. Beside the same engine on the host.

#include <unmask/cuda/rows.hpp>
#include <unmask/host/rows.hpp>
#include <unmask/layer_session.hpp>
#include <unmask/policy/cache.hpp>
#include <unmask/policy/cache_budget.hpp>
#include <unmask/policy/early_skip.hpp>

#include <gtest/gtest.h>

#include <vector>

#include "support/sessions_beside.hpp"
#include "unmask/device/emulated_launches.hpp"
#include "unmask/device/policies.hpp"

namespace unmask::testing {
namespace {

constexpr index_t width = 16;
constexpr index_t layers = 6;
constexpr index_t vocab = 19;
constexpr index_t length = 40;
constexpr model_info model{.vocab = vocab, .mask_token = vocab - 1, .layers = layers};
constexpr layout shape{.prompt = 6, .length = length, .block_length = 12};
constexpr limits capacity{.length = length, .window = 12};

float weight(index_t a, index_t b, index_t c) {
  const auto bits = mixed(
      static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b), static_cast<std::uint64_t>(c));
  return static_cast<float>(2.0 * unit(bits) - 1.0);
}

/// What a layer does to the row of a position whose neighbours hold these tokens.
void advance(float* row, index_t layer, index_t position, const token_id* tokens) {
  const token_id left = tokens[position > 0 ? position - 1 : 0];
  for (index_t j = 0; j < width; ++j) {
    const float before = layer == 0 ? 0.0F : 0.7F * row[j];
    row[j] = before + weight(layer, 7 * tokens[position] + left, j) +
             0.5F * weight(layer + 50, position, j);
  }
}

void head(const float* row, float* logits) {
  for (index_t v = 0; v < vocab; ++v) {
    logits[v] = 0.0F;
    for (index_t j = 0; j < width; ++j) {
      logits[v] += row[j] * weight(99, v, j);
    }
  }
}

/// Memory of one sequence in an engine.
struct engine_memory {
  std::vector<float> hidden = std::vector<float>(std::size_t{length} * width);
  std::vector<float> gathered = hidden;
  std::vector<float> stored = std::vector<float>(std::size_t{layers} * length * width);
  std::vector<float> logits = std::vector<float>(std::size_t{length} * vocab);
};

template <class Policy>
std::vector<token_id> decode_on_the_host(const Policy& p, sequence_report& report) {
  std::vector<token_id> tokens(length, 2);
  layer_session<Policy> s(model, capacity);
  s.start(0, p, tokens, shape);
  engine_memory e;
  while (s.next()) {
    auto pass = s.pass(0);
    std::vector<index_t> rows;
    for (index_t l = 0; l < layers; ++l) {
      const auto at = pass.positions();
      for (std::size_t i = 0; i < at.size(); ++i) {
        advance(e.hidden.data() + i * width, l, at[i], tokens.data());
      }
      if (pass.hooks(l)) {
        const host_hidden<float> now(e.hidden.data(), static_cast<index_t>(at.size()), width);
        const auto choice = pass.at_layer(
            l, now, host_state<float>(e.stored.data() + l * length * width, length, width));
        if (pass.skipped == skipping::leaves) {
          host::gather_rows(now, choice.rows, e.hidden.data(), width);
        }
      }
    }
    const auto wanted = pass.rows();
    for (std::size_t r = 0; r < wanted.size(); ++r) {
      head(e.hidden.data() + wanted[r] * width, e.logits.data() + r * vocab);
    }
    s.read(0, host_logits<float>(e.logits.data(), static_cast<index_t>(wanted.size()), vocab));
    s.decide();
  }
  report = s.report();
  return tokens;
}

/// Enqueues one pass; the host looks at nothing that the device has written.
template <class Policy>
void enqueue_pass(layer_session<Policy, on_stream>& s,
                  engine_memory& e,
                  token_id* tokens,
                  cudaStream_t stream) {
  auto pass = s.pass(0);
  float* hidden = e.hidden.data();
  float* other = e.gathered.data();
  for (index_t l = 0; l < layers; ++l) {
    const device_list at = pass.positions();
    fake_launch(stream, [=] {
      for (index_t i = 0; i < at.size(); ++i) {
        advance(hidden + i * width, l, at[i], tokens);
      }
    });
    if (pass.hooks(l)) {
      const device_hidden<float> now(hidden, at.most, width);
      const auto choice = pass.at_layer(
          l, now, device_state<float>(e.stored.data() + l * length * width, length, width));
      if (pass.skipped == skipping::leaves) {
        ASSERT_EQ(device::gather_rows(now, choice.rows, other, width, stream), cudaSuccess);
        std::swap(hidden, other);
      }
    }
  }
  const device_list wanted = pass.rows();
  float* const logits = e.logits.data();
  fake_launch(stream, [=] {
    for (index_t r = 0; r < wanted.size(); ++r) {
      head(hidden + wanted[r] * width, logits + r * vocab);
    }
  });
  s.read(0, device_logits<float>(logits, wanted.most, vocab));
  s.decide();
}

/// A sequence that an engine decodes on a stream of its own.
template <class Policy>
struct sequence_on_a_stream {
  std::vector<token_id> tokens = std::vector<token_id>(length, 2);
  CUstream_st stream;
  layer_session<Policy, on_stream> session{model, capacity, on_stream{&stream}};
  engine_memory engine;

  explicit sequence_on_a_stream(const Policy& p) {
    session.start(0, p, {tokens.data(), length}, shape);
  }
  void enqueue() { enqueue_pass(session, engine, tokens.data(), &stream); }
};

template <class Policy>
void decode_beside(const Policy& p) {
  sequence_report expected_report;
  const std::vector<token_id> expected = decode_on_the_host(p, expected_report);
  sequence_on_a_stream<Policy> q(p);
  auto& s = q.session;
  while (s.next()) {
    auto calls = fake_cuda().calls;
    const int waits = fake_cuda().waits;
    q.enqueue();
    EXPECT_EQ(fake_cuda().waits, waits) << "waited inside a pass";
    calls["launch"] = fake_cuda().calls["launch"];
    EXPECT_EQ(fake_cuda().calls, calls) << "a pass is launches and nothing else";
  }
  EXPECT_EQ(q.tokens, expected);
  expect_equal(s.report(), expected_report);
  EXPECT_EQ(s.report().end, ending::complete);
}

TEST(EmulatedLayerSession, APassWaitsForNothing) {
  decode_beside(policy{by_confidence{}, confidence_above{0.6F}, early_skip{}, block_cache{6, 4}});
  decode_beside(policy{by_confidence{}, top_k{2}, early_skip{.weight = 0.3F}, dual_cache{}});
  decode_beside(policy{by_confidence{}, top_k{2}, early_skip{}, delayed_cache{5}});
  decode_beside(policy{by_confidence{},
                       top_k{2},
                       cache_budget{.budget = 5, .window = 4},
                       interval_cache{.prompt_period = 4, .answer_period = 5}});
  decode_beside(policy{by_margin{}, top_k{1}, similarity_refresh{}, prefix_cache{}});
  decode_beside(policy{by_confidence{}, top_k{2}, delayed_cache{3}});
  decode_beside(policy{by_confidence{}, top_k{2}, prefix_cache{3}});
}

/// What the host knows of a choice before it is made: the share of what is fed, and a row for the
/// promise that the block commits something.
TEST(EmulatedLayerSession, TheHostKnowsHowManyRowsThereCanBe) {
  policy p{by_confidence{}, top_k{2}, early_skip{}, dual_cache{}};
  sequence_on_a_stream<decltype(p)> q(p);
  auto& s = q.session;
  ASSERT_TRUE(s.next() && s.planned().refresh);
  q.enqueue();
  ASSERT_TRUE(s.next() && !s.planned().refresh);
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
    if (s.planned().refresh) {
      q.enqueue();
      continue;
    }
    ++captures;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t step = nullptr;
    cudaStreamBeginCapture(&q.stream, cudaStreamCaptureModeThreadLocal);
    q.enqueue();
    cudaStreamEndCapture(&q.stream, &graph);
    cudaGraphInstantiate(&step, graph, 0);
    for (int i = 0; i < 15; ++i) {
      cudaGraphLaunch(step, &q.stream);
    }
    fake_drain(&q.stream);
    cudaGraphExecDestroy(step);
    cudaGraphDestroy(graph);
  }
  EXPECT_EQ(q.tokens, expected);
  EXPECT_EQ(s.report().forwards, expected_report.forwards);
  EXPECT_EQ(s.report().committed, expected_report.committed);
  EXPECT_EQ(s.report().end, ending::complete);
  return captures;
}

TEST(EmulatedLayerSession, AReplayedPassGoesOnUntilItDoesNotFit) {
  // The pass that begins the next block feeds everything.
  EXPECT_EQ(decode_with_replays(policy{by_confidence{}, top_k{1}, early_skip{}, dual_cache{}}), 3);
  // Of 34 passes every fourth one feeds a block, too, and computes all of it at every layer.
  const block_cache cache{.prompt_period = 0, .block_period = 4, .reaches_back = false};
  EXPECT_EQ(decode_with_replays(policy{by_confidence{}, top_k{1}, early_skip{}, cache}), 9);
  EXPECT_EQ(decode_with_replays(policy{by_confidence{}, top_k{1}, similarity_refresh{}, cache}), 9);
}

TEST(EmulatedLayerSession, NamesWhatIsWrongBeforeAnythingIsEnqueued) {
  policy p{by_confidence{}, top_k{1}, early_skip{}, dual_cache{}};
  sequence_on_a_stream<decltype(p)> q(p);
  auto& s = q.session;
  ASSERT_TRUE(s.next());
  auto pass = s.pass(0);
  const device_hidden<float> rows(q.engine.hidden.data(), length, width);
  const device_state<float> stored(q.engine.stored.data(), length, width);
  const device_logits<float> logits(q.engine.logits.data(), 12, vocab);
  const int launches = fake_cuda().launches;
  EXPECT_THROW(pass.at_layer(0, rows, stored), std::logic_error);  // no hook there
  EXPECT_THROW(pass.at_layer(2, rows, stored), std::logic_error);  // the one at 1 was not asked
  EXPECT_THROW(pass.at_layer(6, rows, stored), std::invalid_argument);
  EXPECT_THROW(pass.at_layer(1, rows.subrows({0, 39}), stored), std::invalid_argument);
  EXPECT_THROW(pass.at_layer(1, rows, device_state<float>(q.engine.stored.data(), length, 3)),
               std::invalid_argument);
  EXPECT_THROW(s.read(0, logits), std::logic_error);  // the hooks were not asked
  EXPECT_EQ(fake_cuda().launches, launches);
  EXPECT_EQ(pass.at_layer(1, rows, stored).rows.most, length);
  EXPECT_THROW(pass.at_layer(1, rows, stored), std::logic_error);  // behind it
  EXPECT_EQ(pass.at_layer(2, rows, stored).rows.most, length);
  EXPECT_THROW(s.read(0, device_logits<float>(q.engine.logits.data(), 11, vocab)),
               std::invalid_argument);
  s.read(0, logits);
  s.decide();
  EXPECT_EQ(s.report().forwards, 1);
}

}  // namespace
}  // namespace unmask::testing
