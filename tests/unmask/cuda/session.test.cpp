// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sessions on a device: several streams, captured steps, errors. What they decide is the matter of
// parity.test.cpp.

#include <unmask/cuda.hpp>

#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <vector>

#include "support/sessions_beside.hpp"
#include "unmask/cuda/device_memory.hpp"
#include "unmask/cuda/fake_forward.hpp"
#include "unmask/device/policies.hpp"

namespace unmask::testing::session_test {
namespace {

class DeviceSession : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_device()) {
      GTEST_SKIP() << "no CUDA device";
    }
  }
};

TEST_F(DeviceSession, SessionsOnSeveralStreamsDoNotMeet) {
  using policy_type = std::remove_const_t<decltype(credited)>;
  const test_stream one;
  const test_stream two;
  const test_stream three;
  dice d(4);
  sessions_beside<policy_type> first(credited, 20011, 3, 40, one.get(), d);
  sessions_beside<policy_type> second(credited, 20011, 3, 40, two.get(), d);
  sessions_beside<policy_type> third(credited, 16500, 2, 40, three.get(), d);
  for (bool a = true, b = true, c = true; a || b || c;) {
    a = a && first.step<bfloat16>();
    b = b && second.step<bfloat16>();
    c = c && third.step<float>();
  }
}

TEST_F(DeviceSession, AReplayedGraphDecodesOnUntilOtherRowsAreWanted) {
  using policy_type = std::remove_const_t<decltype(sure_ones)>;
  constexpr index_t length = 64;
  const model_info info{.vocab = 5003, .mask_token = 5002};
  const sequence_shape g{.prompt_length = 0, .length = length, .block_length = 16};
  const session_capacity capacity{.length = length, .window = 16};
  std::vector<token_id> expected(length, 1);
  session<policy_type, on_host> host(info, capacity);
  host.start(0, sure_ones, expected, g);
  while (const auto request = host.next()) {
    std::vector<float> logits(static_cast<std::size_t>(request->rows * info.vocab));
    fake_forward_on_host(
        request->segments[0], expected.data(), length, logits.data(), info.vocab, info.vocab);
    host.supply(host_logits<float>(logits.data(), request->rows, info.vocab));
  }

  test_stream stream;
  device_array<token_id> tokens(std::vector<token_id>(length, 1));
  device_array<float> logits(static_cast<std::size_t>(16 * info.vocab));
  session<policy_type, on_stream> s(info, capacity, on_stream{stream.get()});
  s.start(0, sure_ones, {tokens.data(), length}, g);
  int captures = 0;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t step = nullptr;
  // [capture]
  while (const auto request = s.next()) {  // waits; the rows of the next block
    const device_logits<float> rows(logits.data(), request->rows, info.vocab);
    // In this mode a call that allocates or waits, in any thread, spoils the capture.
    device::check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal), "begin");
    fake_forward(request->segments[0], tokens.data(), length, rows, stream.get());  // the engine's
    s.supply(rows);
    device::check(cudaStreamEndCapture(stream.get(), &graph), "end");
    device::check(cudaGraphInstantiate(&step, graph, 0), "instantiate");
    for (int i = 0; i < 16 && !s.finished(); ++i) {  // a block of 16 takes no more
      device::check(cudaGraphLaunch(step, stream.get()), "launch");
    }
    // [/capture]
    ASSERT_LT(captures++, 4) << "one graph for each block is enough";
    std::size_t nodes = 0;
    device::check(cudaGraphGetNodes(graph, nullptr, &nodes), "cudaGraphGetNodes");
    EXPECT_EQ(nodes, 3U) << "the forward pass, the read and the decision";
    static_cast<void>(s.report());
    static_cast<void>(cudaGraphExecDestroy(step));
    static_cast<void>(cudaGraphDestroy(graph));
  }
  EXPECT_EQ(tokens.to_host(), expected);
  EXPECT_EQ(s.report().forwards, host.report().forwards);
  EXPECT_EQ(s.report().end, host.report().end);
}

TEST(CudaError, NamesTheCallAndTheReason) {
  const cuda_error e(cudaErrorMemoryAllocation, "cudaMalloc for a session");
  EXPECT_EQ(e.code(), cudaErrorMemoryAllocation);
  EXPECT_EQ(std::string(e.what()), "cudaMalloc for a session: out of memory");
}

TEST(CudaError, IsThrownWhereThereIsNoDevice) {
  if (has_device()) {
    GTEST_SKIP() << "there is one";
  }
  using session_type = session<std::remove_const_t<decltype(sure_ones)>, on_stream>;
  EXPECT_THROW(session_type({.vocab = 9, .mask_token = 8}, {.length = 3, .window = 3}), cuda_error);
}

}  // namespace
}  // namespace unmask::testing::session_test
