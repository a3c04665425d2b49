// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sessions on a stream beside sessions on the host, with the same logits: equal requests, tokens,
// reports and log-probabilities at every step. This file sees no kernel: the workspaces are
// instantiated in sessions_some.cu and sessions_more.cu.

#include "support/dice.hpp"
#include "unmask/cuda/device_memory.hpp"
#include "unmask/cuda/fake_forward.hpp"
#include "unmask/device/policies.hpp"

#include <unmask/cuda.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <string>
#include <vector>

namespace unmask::testing {
namespace {

/// Sequences of different lengths, in the slots of a host session and of a device session.
template <element T, class Policy>
class pair_of_sessions {
 public:
  pair_of_sessions(const Policy& p, index_t vocab, index_t slots, cudaStream_t stream, dice& d)
      : stream_(stream) {
    info_ = {.vocab = vocab, .mask_token = vocab - 1, .row_shift = d.within(0, 1)};
    info_.end_token = d.chance(0.5) ? no_token : d.within(0, vocab - 2);
    limits capacity{.sequences = slots, .branches = detail::policy_branches(p), .trace = true};
    for (index_t slot = 0; slot < slots; ++slot) {
      layout g{.prompt = d.within(0, 40), .block_length = d.within(4, 40), .seed = d.bits()};
      g.length = g.prompt + d.within(1, 90);
      capacity.length = std::max(capacity.length, g.length);
      capacity.window = std::max(capacity.window, detail::policy_reach(p, g));
      layouts_.push_back(g);
      std::vector<token_id> tokens;
      for (index_t i = 0; i < g.length; ++i) {
        tokens.push_back(d.within(0, vocab - 1));
      }
      device_tokens_.push_back(std::make_unique<device_array<token_id>>(tokens));
      host_tokens_.push_back(std::move(tokens));
    }
    stride_ = vocab + d.within(0, 3);
    const auto rows = static_cast<std::size_t>(slots) *
                      static_cast<std::size_t>(capacity.window * (1 + capacity.branches));
    device_logits_ = std::make_unique<device_array<T>>(rows * static_cast<std::size_t>(stride_) + 1);
    host_ = std::make_unique<session<Policy, on_host>>(info_, capacity);
    device_ = std::make_unique<session<Policy, on_stream>>(info_, capacity, on_stream{stream});
    for (index_t slot = 0; slot < slots; ++slot) {
      const auto i = static_cast<std::size_t>(slot);
      std::vector<std::uint8_t> editable;
      for (index_t j = 0; j < layouts_[i].length; ++j) {
        editable.push_back(d.chance(0.8) ? 1 : 0);
      }
      const std::vector<token_id> suppressed = {d.within(0, vocab - 1)};
      start_options options;
      options.suppressed = suppressed;
      if (d.chance(0.5)) {
        options.editable = editable;
      }
      host_->start(slot, p, host_tokens_[i], layouts_[i], options);
      device_->start(slot, p, {device_tokens_[i]->data(), layouts_[i].length}, layouts_[i], options);
    }
  }

  /// One step on both sides; false at the end.
  [[nodiscard]] bool step() {
    const auto wanted = host_->next();
    const auto request = device_->next();
    compare();
    EXPECT_EQ(wanted.has_value(), request.has_value());
    if (!wanted || !request || ::testing::Test::HasFailure()) {
      return false;
    }
    EXPECT_EQ(wanted->rows, request->rows);
    std::vector<T> logits(static_cast<std::size_t>(wanted->rows) * static_cast<std::size_t>(stride_) + 1);
    for (const segment& s : wanted->segments) {
      const auto& tokens = host_tokens_[static_cast<std::size_t>(s.slot)];
      fake_forward_on_host(s, tokens.data(), static_cast<index_t>(tokens.size()),
                           logits.data() + 1 + s.first_row * stride_, info_.vocab, stride_);
    }
    host_->supply(host_logits<T>(logits.data() + 1, wanted->rows, info_.vocab, stride_));
    const device_logits<T> all(device_logits_->data() + 1, request->rows, info_.vocab, stride_);
    for (const segment& s : request->segments) {
      fake_forward(s, device_tokens_[static_cast<std::size_t>(s.slot)]->data(),
                   layouts_[static_cast<std::size_t>(s.slot)].length,
                   all.subrows({s.first_row, s.first_row + s.rows.size()}), stream_);
    }
    device_->supply(all);
    return true;
  }

 private:
  void compare() {
    for (std::size_t i = 0; i < host_tokens_.size(); ++i) {
      const auto slot = static_cast<index_t>(i);
      const sequence_report& a = device_->report(slot);
      const sequence_report& b = host_->report(slot);
      EXPECT_EQ(a.end, b.end);
      EXPECT_EQ(a.forwards, b.forwards);
      EXPECT_EQ(a.committed, b.committed);
      EXPECT_EQ(a.settled, b.settled);
      EXPECT_EQ(a.forced, b.forced);
      EXPECT_EQ(device_tokens_[i]->to_host(), host_tokens_[i]);
      const auto ours = device_->candidates(slot);
      const auto theirs = host_->candidates(slot);
      ASSERT_EQ(ours.size(), theirs.size());
      for (std::size_t k = 0; k < ours.size(); ++k) {
        EXPECT_EQ(ours[k].position, theirs[k].position);
        EXPECT_EQ(ours[k].token, theirs[k].token);
        EXPECT_EQ(ours[k].admitted, theirs[k].admitted);
        EXPECT_EQ(std::bit_cast<std::uint32_t>(ours[k].log_probability),
                  std::bit_cast<std::uint32_t>(theirs[k].log_probability));
      }
      ASSERT_EQ(device_->committed(slot).size(), host_->committed(slot).size());
    }
  }

  cudaStream_t stream_;
  model_info info_;
  std::ptrdiff_t stride_ = 0;
  std::vector<layout> layouts_;
  std::vector<std::vector<token_id>> host_tokens_;
  std::vector<std::unique_ptr<device_array<token_id>>> device_tokens_;
  std::unique_ptr<device_array<T>> device_logits_;
  std::unique_ptr<session<Policy, on_host>> host_;
  std::unique_ptr<session<Policy, on_stream>> device_;
};

class DeviceSession : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_device()) {
      GTEST_SKIP() << "no CUDA device";
    }
  }
};

TEST_F(DeviceSession, DecidesStepByStepWhatTheHostDoes) {
  test_stream stream;
  for_some_policies([&stream](const char* name, const auto& p) {
    using policy_type = std::remove_cvref_t<decltype(p)>;
    SCOPED_TRACE(name);
    for (std::uint64_t round = 0; round < 5 && !HasFailure(); ++round) {
      dice d(mixed(3, round));
      pair_of_sessions<float, policy_type> floats(p, 1009, 3, stream.get(), d);
      while (floats.step()) {
      }
      pair_of_sessions<bfloat16, policy_type> brains(p, 20011, 4, stream.get(), d);
      while (brains.step()) {
      }
      pair_of_sessions<float16, policy_type> halves(p, 126464, 1, stream.get(), d);
      while (halves.step()) {
      }
    }
  });
}

TEST_F(DeviceSession, SessionsOnTwoStreamsDoNotMeet) {
  using policy_type = std::remove_const_t<decltype(credited)>;
  test_stream one;
  test_stream two;
  dice d(4);
  pair_of_sessions<bfloat16, policy_type> first(credited, 50257, 4, one.get(), d);
  pair_of_sessions<bfloat16, policy_type> second(credited, 50257, 4, two.get(), d);
  for (bool a = true, b = true; a || b;) {
    a = a && first.step();
    b = b && second.step();
  }
}

TEST_F(DeviceSession, AReplayedGraphDecodesOnUntilOtherRowsAreWanted) {
  using policy_type = std::remove_const_t<decltype(sure_ones)>;
  constexpr index_t length = 64;
  const model_info info{.vocab = 5003, .mask_token = 5002};
  const layout g{.prompt = 0, .length = length, .block_length = 16};
  const limits capacity{.length = length, .window = 16};
  std::vector<token_id> expected(length, 1);
  session<policy_type, on_host> host(info, capacity);
  host.start(0, sure_ones, expected, g);
  while (const auto request = host.next()) {
    std::vector<float> logits(static_cast<std::size_t>(request->rows * info.vocab));
    fake_forward_on_host(request->segments[0], expected.data(), length, logits.data(), info.vocab,
                         info.vocab);
    host.supply(host_logits<float>(logits.data(), request->rows, info.vocab));
  }

  test_stream stream;
  device_array<token_id> tokens(std::vector<token_id>(length, 1));
  device_array<float> logits(static_cast<std::size_t>(16 * info.vocab));
  session<policy_type, on_stream> s(info, capacity, on_stream{stream.get()});
  s.start(0, sure_ones, {tokens.data(), length}, g);
  int captures = 0;
  while (const auto request = s.next()) {
    ASSERT_LT(captures++, 4) << "one graph for each block is enough";
    const segment wanted = request->segments[0];
    const device_logits<float> rows(logits.data(), request->rows, info.vocab);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t step = nullptr;
    device::check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), "begin");
    fake_forward(wanted, tokens.data(), length, rows, stream.get());
    s.supply(rows);
    device::check(cudaStreamEndCapture(stream.get(), &graph), "end");
    device::check(cudaGraphInstantiate(&step, graph, 0), "instantiate");
    for (int i = 0; i < 20; ++i) {  // 16 at the most are needed
      device::check(cudaGraphLaunch(step, stream.get()), "launch");
    }
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
}  // namespace unmask::testing
