// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A captured step of a policy by name, replayed after its slot got another one: the read that was
// captured decides as the host, if it reads what the policy needs; otherwise it has no effect.

#include <unmask/named_policy.hpp>

#include <gtest/gtest.h>

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
  s.start(0, read_policy(captured), {tokens.data(), length}, shape);
  const auto request = s.next();
  const segment wanted = request->segments[0];
  logits_of<float> logits(model, request->rows, 0, false, false);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t step = nullptr;
  cudaStreamBeginCapture(&stream, cudaStreamCaptureModeThreadLocal);
  fake_enqueue(&stream, [&] { logits.forward(wanted, tokens); });
  s.supply(logits.view<memory::device>(request->rows));
  cudaStreamEndCapture(&stream, &graph);
  cudaGraphInstantiate(&step, graph, 0);

  const named_policy other = read_policy(replayed);
  s.start(0, other, {tokens.data(), length}, shape);
  for (index_t i = 0; i < length; ++i) {  // as many as the longest decode has
    cudaGraphLaunch(step, &stream);
  }
  const sequence_report report = s.report();
  cudaGraphExecDestroy(step);
  cudaGraphDestroy(graph);
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
  const char* const confident = "threshold(0.2)";
  const char* const by_margin = "by_margin + tokens_per_step(2)";
  const char* const warm = "threshold(0.2) + temperature(0.7)";
  const char* const drawn = "threshold(0.2) + sampling(0.7)";
  const char* const truncated = "threshold(0.2) + sampling(0.7) + top_k(5)";
  const char* const compared = "stable_and_confident(0.2, 0.5)";
  EXPECT_TRUE(replays(confident, confident));
  EXPECT_TRUE(replays(by_margin, confident));
  EXPECT_TRUE(replays(warm, by_margin));
  EXPECT_TRUE(replays(drawn, warm));
  EXPECT_TRUE(replays(truncated, drawn));
  EXPECT_TRUE(replays(compared, compared));
  EXPECT_FALSE(replays(confident, by_margin));
  EXPECT_FALSE(replays(by_margin, warm));
  EXPECT_FALSE(replays(warm, drawn));
  EXPECT_FALSE(replays(drawn, truncated));
  EXPECT_FALSE(replays(truncated, compared));
  EXPECT_FALSE(replays(compared, confident));
}

}  // namespace
}  // namespace unmask::testing::emulated_capture_test
