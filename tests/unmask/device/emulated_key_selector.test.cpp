// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The keys that a layer keeps, chosen on a stream with emulated kernels.

#include <unmask/cuda/key_selector.hpp>

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "unmask/device/emulated_launches.hpp"
#include "unmask/device/key_parity.hpp"

namespace unmask::testing {

INSTANTIATE_TYPED_TEST_SUITE_P(EveryElement, KeyParity, every_element);

namespace {

TEST(EmulatedKeySelector, IsOneLaunchThatMayBeReplayed) {
  CUstream_st stream;
  device::key_selector selector(6, on_stream{&stream});
  std::vector<float> scores = {1, 9, 2, 8, 3, 7};
  auto calls = fake_cuda().calls;
  device_list stay;
  const captured_calls step(&stream,
                            [&] { stay = selector.select(scores.data(), 6, {2, 4}, 0.5, 1); });
  ++calls["launch"];
  EXPECT_EQ(fake_cuda().calls, calls) << "one launch and nothing else";
  step.replay();
  EXPECT_EQ(to_host(stay, &stream), (std::vector<index_t>{1, 5}));
  scores = {5, 0, 0, 0, 5, 5};
  step.replay();
  EXPECT_EQ(to_host(stay, &stream), (std::vector<index_t>{0, 4}));
}

TEST(EmulatedKeySelector, RefusesWhatTheHostRefusesAndEnqueuesNothing) {
  host::key_selector on_the_host(3);
  device::key_selector selector(3, on_stream{});
  const std::vector<float> scores(4);
  const auto why = [](const auto& select) -> std::string {
    try {
      static_cast<void>(select());
    } catch (const std::invalid_argument& refused) {
      return refused.what();
    }
    return "nothing";
  };
  const int launches = fake_cuda().launches;
  const auto expect_refused = [&](index_t count, range block, double keep, index_t pool) {
    const auto lent = std::span(scores).first(static_cast<std::size_t>(count));
    const std::string expected = why([&] { return on_the_host.select(lent, block, keep, pool); });
    EXPECT_NE(expected, "nothing");
    EXPECT_EQ(why([&] { return selector.select(lent.data(), count, block, keep, pool); }),
              expected);
  };
  expect_refused(4, {0, 1}, 0.5, 1);
  expect_refused(3, {-1, 1}, 0.5, 1);
  expect_refused(2, {1, 3}, 0.5, 1);
  expect_refused(3, {0, 1}, -0.5, 1);
  expect_refused(3, {0, 1}, 0.5, 4);
  EXPECT_EQ(fake_cuda().launches, launches);
}

TEST(EmulatedKeySelector, GivesItsMemoryBackAndMayBeMoved) {
  const auto before = fake_cuda().alive;
  {
    device::key_selector first(4, on_stream{});
    const device::key_selector last = std::move(first);
    EXPECT_EQ(fake_cuda().alive.size(), before.size() + 1);
  }
  EXPECT_EQ(fake_cuda().alive, before);
}

TEST(EmulatedKeySelector, ReportsABrokenDevice) {
  device::key_selector selector(4, on_stream{});
  const std::vector<float> scores(4);
  float out = 0.0F;
  fake_cuda().calls_until_failure = 1;
  EXPECT_THROW(static_cast<void>(selector.select(scores.data(), 4, {0, 1}, 0.5, 1)), cuda_error);
  fake_cuda().calls_until_failure = 1;
  EXPECT_THROW(device::score_keys<float>({scores.data(), 1, 4}, scores.data(), &out, nullptr),
               cuda_error);
  fake_cuda().calls_until_failure = 1;
  EXPECT_THROW(device::key_selector(4, on_stream{}), cuda_error);
}

}  // namespace
}  // namespace unmask::testing
