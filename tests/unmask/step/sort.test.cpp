// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/step/sort.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <limits>
#include <thread>
#include <vector>

#include "support/dice.hpp"

namespace unmask::testing::sort_test {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

std::vector<std::uint64_t> random_keys(dice& d, index_t count) {
  std::vector<std::uint64_t> keys(static_cast<std::size_t>(step::sort_size(count)), step::no_key);
  for (index_t i = 0; i < count; ++i) {
    // Few different scores, so that the index decides often.
    keys[static_cast<std::size_t>(i)] =
        step::order_key(static_cast<float>(d.within(-3, 3)) * 0.25F, i);
  }
  return keys;
}

TEST(sort_size, is_the_next_power_of_two) {
  EXPECT_EQ(step::sort_size(1), 1);
  EXPECT_EQ(step::sort_size(2), 2);
  EXPECT_EQ(step::sort_size(3), 4);
  EXPECT_EQ(step::sort_size(64), 64);
  EXPECT_EQ(step::sort_size(65), 128);
}

TEST(order_key, is_ascending_where_scores_descend) {
  const float scores[] = {inf, 1e30F, 1.0F, 0.5F, 1e-40F, 0.0F, -1e-40F, -0.5F, -1.0F, -1e30F};
  for (std::size_t i = 0; i + 1 < std::size(scores); ++i) {
    SCOPED_TRACE(scores[i]);
    // Whatever the indices are.
    EXPECT_LT(step::order_key(scores[i], 1000), step::order_key(scores[i + 1], 0));
  }
}

TEST(order_key, is_ascending_in_the_index_where_scores_are_equal) {
  for (const float score : {0.5F, -0.5F, 0.0F, inf, -inf, nan}) {
    SCOPED_TRACE(score);
    EXPECT_LT(step::order_key(score, 3), step::order_key(score, 4));
  }
  EXPECT_LT(step::order_key(0.0F, 3), step::order_key(-0.0F, 4));
  EXPECT_LT(step::order_key(-0.0F, 3), step::order_key(0.0F, 4));
}

TEST(order_key, puts_nan_behind_every_number_and_before_no_key) {
  EXPECT_LT(step::order_key(-std::numeric_limits<float>::max(), 9), step::order_key(nan, 0));
  EXPECT_LT(step::order_key(-std::numeric_limits<float>::max(), 9), step::order_key(-nan, 0));
  EXPECT_LT(step::order_key(nan, 1 << 30), step::no_key);
}

TEST(order_key, gives_its_index_back) {
  for (const index_t i : {0, 1, 77, std::numeric_limits<index_t>::max()}) {
    EXPECT_EQ(step::key_index(step::order_key(-0.25F, i)), i);
  }
}

TEST(sort, sorts_every_size) {
  dice d(11);
  for (index_t count = 1; count <= 300; ++count) {
    SCOPED_TRACE(count);
    std::vector<std::uint64_t> keys = random_keys(d, count);
    std::vector<std::uint64_t> expected = keys;
    std::sort(expected.begin(), expected.end());
    const auto size = static_cast<index_t>(keys.size());
    for (std::uint64_t k = 600; k > 0; --k) {  // of another array, which begins behind the keys
      keys.push_back(k);
      expected.push_back(k);
    }
    std::vector<std::uint64_t> descending = expected;
    std::reverse(descending.begin(), descending.begin() + size);
    step::sort(serial{}, keys.data(), size);
    ASSERT_EQ(keys, expected);
    step::sort(serial{}, descending.data(), size);
    ASSERT_EQ(descending, expected);
  }
}

TEST(sort, brings_the_lowest_to_the_front) {
  dice d(13);
  for (index_t count = 1; count <= 70; ++count) {
    for (const index_t wanted : {0, 1, 3, 16, 200}) {
      std::vector<std::uint64_t> keys = random_keys(d, count);
      std::vector<std::uint64_t> expected = keys;
      std::sort(expected.begin(), expected.end());
      const auto size = static_cast<index_t>(keys.size());
      const index_t front = std::min(wanted, size);
      step::sort_front(serial{}, keys.data(), size, front);
      ASSERT_TRUE(std::equal(keys.begin(), keys.begin() + front, expected.begin()));
      std::sort(keys.begin(), keys.end());
      ASSERT_EQ(keys, expected);  // none is lost
    }
  }
}

/// A thread group whose lanes are threads.
struct group_of_threads {
  index_t own = 0;
  index_t all = 1;
  std::barrier<>* gate = nullptr;
  [[nodiscard]] index_t lane() const { return own; }
  [[nodiscard]] index_t lanes() const { return all; }
  void sync() const { gate->arrive_and_wait(); }
};
static_assert(thread_group<group_of_threads>);

TEST(sort, does_the_same_with_any_number_of_lanes) {
  dice d(12);
  for (const index_t lanes : {2, 3, 5, 40}) {
    for (const index_t count : {1, 2, 7, 32, 100, 200}) {
      SCOPED_TRACE(::testing::Message() << lanes << " lanes, " << count << " keys");
      std::vector<std::uint64_t> keys = random_keys(d, count);
      std::vector<std::uint64_t> expected = keys;
      std::sort(expected.begin(), expected.end());
      std::barrier<> gate(lanes);
      std::vector<std::thread> threads;
      for (index_t lane = 0; lane < lanes; ++lane) {
        threads.emplace_back([&, lane] {
          step::sort(
              group_of_threads{lane, lanes, &gate}, keys.data(), static_cast<index_t>(keys.size()));
        });
      }
      for (std::thread& t : threads) {
        t.join();
      }
      ASSERT_EQ(keys, expected);
    }
  }
}

}  // namespace
}  // namespace unmask::testing::sort_test
