// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A captured step of a policy by name, replayed after its slot got another one: the read that was
// captured decides as the host, if it reads what the policy needs; otherwise it has no effect.

#include <unmask/named_policy.hpp>

#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <vector>

#include "support/sessions_beside.hpp"
#include "unmask/device/emulated_launches.hpp"

namespace unmask::testing::emulated_capture_test {
namespace {

constexpr index_t length = 6;
constexpr model_info info{.vocab = 40, .mask_token = 39};
constexpr session_capacity capacity{.length = length, .window = length};
constexpr sequence_shape shape{.length = length, .block_length = length};
constexpr fake_model model{.seed = 3, .vocab = info.vocab};

std::vector<token_id> decoded_on_the_host(const named_policy& policy) {
  session<named_policy, on_host> host(info, capacity);
  std::vector<token_id> tokens(length, 1);
  host.start(0, policy, tokens, shape);
  while (const auto request = host.next()) {
    logits_of<float> logits(model, request->rows, 0, false, false);
    logits.forward(request->segments[0], tokens);
    host.supply(logits.view<memory::host>(request->rows));
  }
  return tokens;
}

// Captures a step of one policy, and replays it for another. Returns whether it decoded.
bool replays(const char* captured, const char* replayed) {
  SCOPED_TRACE(std::string(captured) + ", then " + replayed);
  CUstream_st stream;
  session<named_policy, on_stream> s(info, capacity, on_stream{&stream});
  std::vector<token_id> tokens(length, 1);
  const named_policy other = read_policy(replayed);
  s.start(0, other, {tokens.data(), length}, shape);  // makes room; after a capture it must not
  s.start(0, read_policy(captured), {tokens.data(), length}, shape);
  const auto request = s.next();
  const segment wanted = request->segments[0];
  logits_of<float> logits(model, request->rows, 0, false, false);
  const captured_calls step(&stream, [&] {
    fake_enqueue(&stream, [&] { logits.forward(wanted, tokens); });
    s.supply(logits.view<memory::device>(request->rows));
  });

  s.start(0, other, {tokens.data(), length}, shape);
  step.replay(length);  // as often as the longest decode has steps
  const sequence_report report = s.report();
  if (report.end == ending::running) {
    EXPECT_EQ(report.forwards, 0);
    EXPECT_EQ(report.committed, 0);
    return false;
  }
  EXPECT_EQ(report.end, ending::complete);
  EXPECT_EQ(tokens, decoded_on_the_host(other));
  return true;
}

TEST(emulated_capture, serves_policies_that_read_no_more) {
  // Each reads more than the one before it; the last compares rows, and serves itself alone.
  const char* const texts[] = {"threshold(0.2)",
                               "threshold(0.2) + temperature(0.7)",
                               "by_margin + temperature(0.7) + tokens_per_step(2)",
                               "threshold(0.2) + sampling(0.7)",
                               "threshold(0.2) + sampling(0.7) + top_k(5)",
                               "stable_and_confident(0.2, 0.5)"};
  const std::size_t last = std::size(texts) - 1;
  for (std::size_t captured = 0; captured <= last; ++captured) {
    for (std::size_t replayed = 0; replayed <= last; ++replayed) {
      const bool serves = captured == last ? replayed == last : replayed <= captured;
      EXPECT_EQ(replays(texts[captured], texts[replayed]), serves)
          << texts[captured] << ", then " << texts[replayed];
    }
  }
}

}  // namespace
}  // namespace unmask::testing::emulated_capture_test
