// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/policy/logits/credit.hpp>
#include <unmask/policy/logits/truncation.hpp>
#include <unmask/policy/replay.hpp>
#include <unmask/trace/replay_table.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "support/dice.hpp"
#include "support/sessions_beside.hpp"
#include "unmask/device/emulated_launches.hpp"

namespace unmask::testing::emulated_replay_test {
namespace {

constexpr index_t vocab = 5000;  // three chunks
constexpr sequence_shape shape{.prompt_length = 2, .length = 14, .block_length = 6};

/// A trace that commits random tokens, two in each step.
trace random_trace(dice& d) {
  trace t;
  t.info = {.vocab = vocab, .mask_token = vocab - 1};
  traced_sequence s;
  s.shape = shape;
  s.tokens.assign(14, vocab - 1);
  for (index_t step = 0; step < 6; ++step) {
    traced_step now;
    now.step = step;
    now.score = step < 3 ? range{2, 8} : range{8, 14};
    for (index_t p = now.score.first + step % 3 * 2; p < now.score.last; ++p) {
      candidate_entry& e = now.candidates.emplace_back();
      e.position = p;
      e.token = d.within(0, vocab - 2);
      e.outcome =
          now.candidates.size() <= 2 ? candidate_outcome::committed : candidate_outcome::held;
    }
    s.steps.push_back(now);
  }
  t.sequences.push_back(s);
  return t;
}

/// Replays on host and device; expects equal bits, and where nothing edits the rows the naive
/// log-probability, whose number is returned.
template <class... More>
int expect_equal_replays(dice& d, bool is_plain, const More&... more) {
  const trace t = random_trace(d);
  const replay_table table(t);
  const policy p{replay{table.view()}, more...};
  using policy_type = std::remove_const_t<decltype(p)>;
  const session_capacity capacity{.length = 14, .window = 6, .trace = true};
  CUstream_st stream;
  session<policy_type> host(t.info, capacity);
  session<policy_type, on_stream> device(t.info, capacity, on_stream{&stream});
  std::vector<token_id> on_host = table.tokens();
  std::vector<token_id> on_device = table.tokens();
  host.start(0, p, {on_host.data(), 14}, shape);
  device.start(0, p, {on_device.data(), 14}, shape);
  const fake_model model{.seed = d.bits(), .vocab = vocab};
  int compared = 0;
  while (const auto request = host.next()) {
    const auto other = device.next();
    EXPECT_EQ(other.value().rows, request->rows);
    std::vector<float> z(static_cast<std::size_t>(request->rows) * vocab);
    for (index_t r = 0; r < request->rows; ++r) {
      model.row<float>(on_host,
                       request->segments[0].rows.first + r,
                       std::span(z).subspan(static_cast<std::size_t>(r) * vocab, vocab));
    }
    const range rows = request->segments[0].rows;
    host.supply(host_logits<float>(z.data(), rows.size(), vocab));
    device.supply(device_logits<float>(z.data(), rows.size(), vocab));
    expect_equal(device.candidates(0), host.candidates(0));
    expect_equal(device.committed(0), host.committed(0));
    for (const candidate_entry& e : host.candidates(0)) {
      const replay_entry* const wanted = table.view().find(e.step, e.position);
      EXPECT_TRUE(wanted != nullptr && wanted->token == e.token);
      EXPECT_EQ(e.committed, wanted != nullptr && wanted->action == replay_action::commit);
      const float* const row = z.data() + std::ptrdiff_t{e.position - rows.first} * vocab;
      double sum = 0.0;
      for (index_t v = 0; v + 1 < vocab; ++v) {
        sum += std::exp(static_cast<double>(row[v]));
      }
      if (is_plain && std::isfinite(sum) && std::isfinite(row[e.token])) {
        ++compared;
        EXPECT_NEAR(e.log_probability, static_cast<double>(row[e.token]) - std::log(sum), 1e-4);
      }
    }
  }
  EXPECT_FALSE(device.next().has_value());
  EXPECT_EQ(on_host, on_device);
  EXPECT_EQ(std::count(on_host.begin() + 2, on_host.end(), vocab - 1), 0);
  return compared;
}

TEST(EmulatedReplay, GivesTheTokensOfATraceTheBitsOfTheHost) {
  dice d(5);
  for (int i = 0; i < 4; ++i) {
    EXPECT_GT(expect_equal_replays(d, true), 0);
    expect_equal_replays(d, false, trace_credit<8>{});
    expect_equal_replays(d, false, top_k{.k = 40}, confidence_after_truncation{});
    expect_equal_replays(d, false, top_p{.p = 0.999F});
  }
}

}  // namespace
}  // namespace unmask::testing::emulated_replay_test
