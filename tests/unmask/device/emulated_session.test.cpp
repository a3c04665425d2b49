// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whole sessions on a stream, with emulated kernels and a fake runtime, beside sessions on the
// host: the same requests, tokens, reports and commits at every step. What this leaves to a real
// device is the compiler's code for it and the true order of its memory accesses.

#include <unmask/named_policy.hpp>

#include <gtest/gtest.h>

#include "support/sessions_beside.hpp"
#include "unmask/device/emulated_launches.hpp"
#include "unmask/device/policies.hpp"

namespace unmask::testing::emulated_session_test {
namespace {

TEST(EmulatedSession, SharesRowsOfSeveralRunsAmongBlocks) {
  dice d(12);
  const test_stream stream;
  // 20 chunks; few multiprocessors make long runs, many make short ones.
  for (const int multiprocessors : {1, 132}) {
    fake_cuda().multiprocessors = multiprocessors;
    sessions_beside<named_policy> both(
        read_policy("by_margin + steps_per_block(4)"), 40000, 2, 9, stream.get(), d);
    while (both.step<bfloat16>()) {
    }
    EXPECT_GT(both.steps(), 1);
  }
  fake_cuda().multiprocessors = 1;
}

// A position without a row has as many thread blocks as one with a row, which may run last. None
// may see the plan of the next step: it has a row at their index, when the first block of the
// sequence is complete, and that row is not there yet.
TEST(EmulatedSession, BlocksOfPositionsWithoutARowEndBeforeTheNextPlan) {
  const named_policy some = read_policy("threshold(1) + block_pipeline");  // one at a time
  constexpr index_t length = 16;
  const model_info info{.vocab = 20011, .mask_token = 20010};  // three runs
  const sequence_shape shape{.length = length, .block_length = 8};
  std::vector<std::uint8_t> editable(length, 1);
  std::fill_n(editable.begin(), 6, std::uint8_t{0});
  fake_cuda().multiprocessors = 132;
  for (std::uint64_t round = 0; round < 24 && !HasFailure(); ++round) {
    SCOPED_TRACE(round);
    const fake_model model{.seed = round, .vocab = info.vocab};
    const session_capacity capacity{.length = length, .window = length};
    CUstream_st stream;
    session<named_policy, on_stream> s(info, capacity, on_stream{&stream});
    session<named_policy, on_host> host(info, capacity);
    std::vector<token_id> tokens(length, 1);
    std::vector<token_id> expected = tokens;
    s.start(0, some, {tokens.data(), length}, shape, {.editable = editable});
    host.start(0, some, expected, shape, {.editable = editable});
    while (const auto request = host.next()) {
      ASSERT_EQ(s.next()->rows, request->rows);
      logits_of<bfloat16> logits(model, request->rows, 0, false, false);
      logits.forward(request->segments[0], expected);
      host.supply(logits.view<memory::host>(request->rows));
      s.supply(logits.view<memory::device>(request->rows));
      ASSERT_EQ(s.report().forwards, host.report().forwards);
      ASSERT_EQ(tokens, expected);
    }
    EXPECT_FALSE(s.next().has_value());
    EXPECT_EQ(s.report().forwards, 10);
  }
  fake_cuda().multiprocessors = 1;
}

TEST(EmulatedSession, SessionsOnSeveralStreamsDoNotMeet) {
  dice d(13);
  const test_stream one;
  const test_stream two;
  {
    sessions_beside<std::remove_const_t<decltype(credited)>> first(
        credited, 33, 2, 14, one.get(), d);
    sessions_beside<std::remove_const_t<decltype(credited)>> second(
        credited, 33, 3, 14, two.get(), d);
    for (bool a = true, b = true; a || b;) {
      a = a && first.step<float>();
      b = b && second.step<float>();
    }
  }
  EXPECT_TRUE(fake_cuda().alive.empty()) << "a session left memory behind";
}

TEST(EmulatedSession, MoreSegmentsThanABatchHoldsTakeSeveralLaunches) {
  using policy_type = std::remove_const_t<decltype(sure_ones)>;
  constexpr index_t slots = device::row_batch::capacity + 3;
  const fake_model model{.seed = 3, .vocab = 16};
  CUstream_st stream;
  session<policy_type, on_stream> s({.vocab = 16, .mask_token = 15},
                                    {.sequences = slots, .length = 1, .window = 1},
                                    on_stream{&stream});
  std::vector<token_id> tokens(slots, 7);
  for (index_t slot = 0; slot < slots; ++slot) {
    s.start(slot, sure_ones, {tokens.data() + slot, 1}, {.length = 1});
  }
  const auto request = s.next();
  logits_of<float> logits(model, request->rows, 0, false, false);
  for (const segment& g : request->segments) {
    logits.forward(g, {tokens[static_cast<std::size_t>(g.slot)]});
  }
  const int launches = fake_cuda().launches;
  s.supply(logits.view<memory::device>(request->rows));
  EXPECT_EQ(fake_cuda().launches - launches, 3) << "two reads, one decision";
  EXPECT_FALSE(s.next().has_value());
  for (index_t slot = 0; slot < slots; ++slot) {
    EXPECT_EQ(s.report(slot).committed, 1) << slot;
  }
}

TEST(EmulatedSession, ACancelledSequenceStaysAsItIsWhileOthersGoOn) {
  const named_policy in_steps = read_policy("by_margin + steps_per_block(4)");
  const fake_model model{.seed = 4, .vocab = 16};
  CUstream_st stream;
  session<named_policy, on_stream> s({.vocab = 16, .mask_token = 15},
                                     {.sequences = 2, .length = 6, .window = 6},
                                     on_stream{&stream});
  std::vector<std::vector<token_id>> tokens(2, std::vector<token_id>(6, 1));
  for (index_t slot = 0; slot < 2; ++slot) {
    s.start(slot,
            in_steps,
            {tokens[static_cast<std::size_t>(slot)].data(), 6},
            {.length = 6, .block_length = 2});
  }
  int steps = 0;
  while (const auto request = s.next()) {
    logits_of<float> logits(model, request->rows, 0, false, false);
    for (const segment& g : request->segments) {
      logits.forward(g, tokens[static_cast<std::size_t>(g.slot)]);
    }
    s.supply(logits.view<memory::device>(request->rows));
    if (++steps == 1) {
      s.cancel(0);
    }
    static_cast<void>(s.report());  // so that the logits may go
  }
  EXPECT_EQ(s.report(0).end, ending::cancelled);
  EXPECT_EQ(s.report(0).forwards, 1);
  EXPECT_EQ(std::count(tokens[0].begin(), tokens[0].end(), 15), s.report(0).masked);
  EXPECT_GT(s.report(0).masked, 0);
  EXPECT_EQ(s.report(1).end, ending::complete);
}

TEST(EmulatedSession, TwoSequencesThatRunHaveNoTokensInCommon) {
  const named_policy in_steps = read_policy("by_margin + steps_per_block(4)");
  CUstream_st stream;
  session<named_policy, on_stream> s({.vocab = 16, .mask_token = 15},
                                     {.sequences = 2, .length = 6, .window = 6},
                                     on_stream{&stream});
  std::vector<token_id> tokens(9, 1);
  const sequence_shape shape = {.length = 6, .block_length = 2};
  s.start(0, in_steps, {tokens.data(), 6}, shape);
  EXPECT_THROW(s.start(1, in_steps, {tokens.data() + 3, 6}, shape), std::invalid_argument);
  s.cancel(0);
  EXPECT_NO_THROW(s.start(1, in_steps, {tokens.data() + 3, 6}, shape));
  EXPECT_EQ(s.next()->segments.size(), 1U);
}

/// An engine whose forward pass was captured: it computes rows [0, length) wherever they are
/// wanted.
TEST(EmulatedSession, AReplayedGraphDecodesOnUntilOtherRowsAreWanted) {
  policy one_by_one = sure_ones;
  one_by_one = policy{by_confidence{}, threshold{1.0F}, stop_at_any_end{}};  // commits none
  using policy_type = decltype(one_by_one);
  const fake_model model{.seed = 5, .vocab = 40};
  constexpr index_t length = 12;
  const model_info info{.vocab = 40, .mask_token = 39};
  const sequence_shape g{.prompt_length = 0, .length = length, .block_length = 4};
  CUstream_st stream;
  session<policy_type, on_stream> s(info, {.length = length, .window = 4}, on_stream{&stream});
  session<policy_type, on_host> host(info, {.length = length, .window = 4});
  std::vector<token_id> tokens(length, 1);
  std::vector<token_id> expected(length, 1);
  s.start(0, one_by_one, {tokens.data(), length}, g);
  host.start(0, one_by_one, expected, g);
  while (const auto request = host.next()) {
    logits_of<float> logits(model, request->rows, 0, false, false);
    logits.forward(request->segments[0], expected);
    host.supply(logits.view<memory::host>(request->rows));
  }

  int captures = 0;
  while (const auto request = s.next()) {
    ASSERT_LT(captures++, 3) << "one graph for each block is enough";
    const segment wanted = request->segments[0];
    logits_of<float> logits(model, request->rows, 0, false, false);
    const captured_calls step(&stream, [&] {
      fake_enqueue(&stream, [&] { logits.forward(wanted, tokens); });
      s.supply(logits.view<memory::device>(request->rows));
    });
    const index_t before = s.report().forwards;
    EXPECT_EQ(before, 4 * (captures - 1)) << "a captured step has not run";
    step.replay(7);  // three of them too many
    EXPECT_EQ(s.report().forwards, before + 4);
  }
  EXPECT_EQ(captures, 3);
  EXPECT_EQ(tokens, expected);
  EXPECT_EQ(s.report().end, ending::complete);
  EXPECT_EQ(s.report().forced, length);
}

TEST(EmulatedSession, NothingLeaksWhenAnyCallOfItsConstructionFails) {
  using session_type = session<std::remove_const_t<decltype(sure_ones)>, on_stream>;
  const model_info model{.vocab = 16, .mask_token = 15};
  const session_capacity capacity{.sequences = 2, .length = 6, .window = 6};
  int failures = 0;
  for (int call = 1;; ++call) {
    fake_cuda().calls_until_failure = call;
    try {
      const session_type s(model, capacity);
      fake_cuda().calls_until_failure = -1;
      break;
    } catch (const cuda_error& e) {
      ++failures;
      EXPECT_EQ(e.code(), cudaErrorMemoryAllocation);
      EXPECT_NE(std::string(e.what()).find("out of memory"), std::string::npos);
    }
    EXPECT_TRUE(fake_cuda().alive.empty());
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "the error was told, it must not be told again";
    fake_drain(nullptr);
  }
  EXPECT_GE(failures, 7);
  EXPECT_TRUE(fake_cuda().alive.empty());
}

struct counting_allocator {
  int allocations = 0;
  int alive = 0;
  void* allocate(std::size_t bytes, cudaStream_t) {
    ++allocations;
    ++alive;
    return std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  }
  void deallocate(void* p, cudaStream_t) {
    --alive;
    std::free(p);
  }
};

TEST(EmulatedSession, TakesItsDeviceMemoryFromTheEnginesAllocator) {
  counting_allocator lent;
  {
    CUstream_st stream;
    session<std::remove_const_t<decltype(sure_ones)>, on_stream> s(
        {.vocab = 16, .mask_token = 15}, {.length = 6, .window = 6}, on_stream{&stream, lent});
    EXPECT_EQ(lent.alive, 3);  // of the session, of its rows and of its slot
    auto moved = std::move(s);
    EXPECT_FALSE(moved.next().has_value());
    EXPECT_EQ(lent.alive, 3);
  }
  EXPECT_EQ(lent.allocations, 3);
  EXPECT_EQ(lent.alive, 0);
}

TEST(EmulatedSession, ALaunchThatFailsIsReportedAndTheSlotCanBeStartedAnew) {
  using policy_type = std::remove_const_t<decltype(sure_ones)>;
  const fake_model model{.seed = 6, .vocab = 16};
  CUstream_st stream;
  session<policy_type, on_stream> s(
      {.vocab = 16, .mask_token = 15}, {.length = 3, .window = 3}, on_stream{&stream});
  std::vector<token_id> tokens(3, 1);
  s.start(0, sure_ones, {tokens.data(), 3}, {.length = 3});
  const auto request = s.next();
  logits_of<float> logits(model, request->rows, 0, false, false);
  logits.forward(request->segments[0], tokens);
  fake_cuda().calls_until_failure = 1;
  EXPECT_THROW(s.supply(logits.view<memory::device>(request->rows)), cuda_error);
  s.supply(logits.view<memory::device>(request->rows));
  EXPECT_EQ(s.report().forwards, 1);
}

}  // namespace
}  // namespace unmask::testing::emulated_session_test
