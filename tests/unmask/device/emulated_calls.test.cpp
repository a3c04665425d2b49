// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls of a session to the CUDA runtime, one by one, and its behaviour when the runtime fails.
// The runtime is a fake that counts; the session's code is the one that runs on a device.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "support/sessions_beside.hpp"
#include "unmask/device/emulated_launches.hpp"
#include "unmask/device/texts.hpp"

namespace unmask::testing::emulated_calls_test {
namespace {

using calls = std::map<std::string, int>;

/// The calls since `before`.
calls since(const calls& before) {
  calls all = fake_cuda().calls;
  for (const auto& [name, count] : before) {
    all[name] -= count;
  }
  std::erase_if(all, [](const auto& entry) { return entry.second == 0; });
  return all;
}

/// A session with sequences in all its slots, and its first request's logits on their way.
template <class Policy, element T = float>
struct one_step {
  test_stream stream;
  fake_model model{.seed = 7, .vocab = 24};
  std::vector<token_id> host_tokens;
  device_array<token_id> tokens;
  std::unique_ptr<logits_on_device<T>> logits;  // outlives the session, which waits when it ends
  session<Policy, on_stream> s;
  std::optional<forward_request> request;

  explicit one_step(const Policy& p, index_t slots = 2, index_t window = 8)
      : host_tokens(static_cast<std::size_t>(8 * slots), 3)
      , tokens(host_tokens)
      , s({.vocab = 24, .mask_token = 23, .eos_token = 22},
          {.sequences = slots,
           .length = window,  // a window counts as no more
           .window = window,
           .branches = detail::policy_branches(p)},
          on_stream{stream.get()}) {
    for (index_t slot = 0; slot < slots; ++slot) {
      s.start(slot, p, {tokens.data() + 8 * slot, 8}, {.length = 8, .block_length = 8});
    }
  }
  void ask() {
    request = s.next();
    if (request) {
      logits_of<T> on_the_host(model, request->rows, 1, false, false);
      for (const segment& part : request->segments) {
        on_the_host.forward(part, {3, 3, 3, 3, 3, 3, 3, 3});
      }
      logits = std::make_unique<logits_on_device<T>>(on_the_host, stream.get());
    }
  }
};

named_policy in_four_steps() {
  return read_policy("steps_per_block(4)");
}

template <element T>
void expect_two_launches_a_step() {
  for (const char* const text : {"threshold(0.4) + lookahead(2, 0.5) + block_pipeline(0.2, 0.6, 3)",
                                 "steps_per_block(4) + sampling(0.8)",
                                 "stable_and_confident(0.2, 0.5)",
                                 "tokens_per_step(2) + remask_current_below(0.3, 2)",
                                 "tokens_per_step(1) + sampling + top_k(90)"}) {
    SCOPED_TRACE(text);
    one_step<named_policy, T> one(read_policy(text));
    for (int i = 0; i < 3; ++i) {
      one.ask();
      ASSERT_TRUE(one.request);
      const calls before = fake_cuda().calls;
      one.s.supply(one.logits->view(one.request->rows), one.logits->modifiers());
      EXPECT_EQ(since(before), (calls{{"launch", 2}}));
    }
  }
}

TEST(RuntimeCalls, AStepIsTwoLaunchesAndNothingElse) {
  expect_two_launches_a_step<float>();
}

TEST(RuntimeCalls, NextWaitsForOneEventOnce) {
  one_step<named_policy> one(in_four_steps());
  one.ask();
  one.s.supply(one.logits->view(one.request->rows));
  calls before = fake_cuda().calls;
  EXPECT_TRUE(one.s.next().has_value());
  EXPECT_EQ(since(before), (calls{{"cudaEventRecord", 1}, {"cudaEventSynchronize", 1}}));
  before = fake_cuda().calls;
  EXPECT_TRUE(one.s.next().has_value());
  EXPECT_EQ(since(before), calls{}) << "the request is out";
}

TEST(RuntimeCalls, AStartIsOneLaunchAndACopyOfWhatMayBeEdited) {
  one_step<named_policy> one(in_four_steps());
  calls before = fake_cuda().calls;
  one.s.start(0, in_four_steps(), {one.tokens.data(), 8}, {.length = 8, .block_length = 8});
  EXPECT_EQ(since(before), (calls{{"launch", 1}}));
  const std::vector<std::uint8_t> editable(8, 1);
  start_options options;
  options.editable = editable;
  before = fake_cuda().calls;
  one.s.start(
      1, in_four_steps(), {one.tokens.data() + 8, 8}, {.length = 8, .block_length = 8}, options);
  EXPECT_EQ(since(before), (calls{{"launch", 1}, {"cudaMemcpyAsync", 1}}));
}

TEST(RuntimeCalls, SegmentsReadOneByOneTakeALaunchEachAndOneToDecide) {
  one_step<named_policy> one(in_four_steps(), 3);
  one.ask();
  const auto all = one.logits->view(one.request->rows);
  const calls before = fake_cuda().calls;
  for (std::size_t i = 0; i < 3; ++i) {
    const segment& part = one.request->segments[i];
    const auto rows = all.subrows({part.first_row, part.first_row + part.rows.size()});
    EXPECT_THROW(one.s.decide(), std::logic_error);
    one.s.read(i, rows);
    EXPECT_THROW(one.s.read(i, rows), std::logic_error);
    EXPECT_THROW(one.s.supply(all), std::logic_error);
  }
  one.s.decide();
  EXPECT_EQ(since(before), (calls{{"launch", 4}}));
  one.ask();
  const calls later = fake_cuda().calls;
  one.s.supply(one.logits->view(one.request->rows));
  EXPECT_EQ(since(later), (calls{{"launch", 2}})) << "one step does not decide how the next is run";
}

TEST(RuntimeCalls, FinishedLooksWithoutWaiting) {
  one_step<named_policy> one(read_policy("threshold(0)"));
  one.ask();
  EXPECT_FALSE(one.s.finished());
  const std::span<const std::uint32_t> words = one.s.running();
  EXPECT_EQ(std::vector<std::uint32_t>(words.begin(), words.end()),
            (std::vector<std::uint32_t>{1, 1}));
  one.s.supply(one.logits->view(one.request->rows));
  const calls before = fake_cuda().calls;
  EXPECT_FALSE(one.s.finished()) << "the step has not run yet";
  fake_drain(one.stream.get());  // the device gets there by itself
  EXPECT_TRUE(one.s.finished());
  EXPECT_EQ(since(before), calls{});
  EXPECT_FALSE(one.s.next().has_value());
}

TEST(RuntimeCalls, ACancelledSequenceDoesNotRun) {
  one_step<named_policy> one(in_four_steps());
  one.ask();
  one.s.supply(one.logits->view(one.request->rows));
  one.s.cancel(0);
  EXPECT_EQ(one.s.running()[0], 0U);
  one.s.cancel(1);
  EXPECT_TRUE(one.s.finished());
}

TEST(RuntimeFailure, ABrokenDeviceIsReportedByEveryCallAndNothingHangsOrLeaks) {
  {
    one_step<named_policy> one(in_four_steps());
    one.ask();
    one.s.supply(one.logits->view(one.request->rows));
    fake_cuda().broken = true;  // a kernel of the engine wrote where it must not
    for (int again = 0; again < 3; ++again) {
      try {
        static_cast<void>(one.s.next());
        ADD_FAILURE() << "next() has to report it";
      } catch (const cuda_error& e) {
        EXPECT_EQ(e.code(), cudaErrorIllegalAddress);
        EXPECT_STREQ(e.what(), "cudaEventRecord: an illegal memory access was encountered");
      }
    }
    EXPECT_THROW(static_cast<void>(one.s.report()), cuda_error);
    EXPECT_THROW(one.s.start(0, in_four_steps(), {one.tokens.data(), 8}, {.length = 8}),
                 cuda_error);
    EXPECT_FALSE(one.s.finished()) << "nothing is known to have ended";
  }
  fake_cuda().broken = false;
  static_cast<void>(cudaGetLastError());
  EXPECT_TRUE(fake_cuda().alive.empty());
}

}  // namespace
}  // namespace unmask::testing::emulated_calls_test
