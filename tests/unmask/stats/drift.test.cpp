// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sums of the drift of a hidden vector: exact where all numbers are whole, and in their order
// where one is not.
#include <unmask/stats/drift.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "support/dice.hpp"
#include "support/fake_logits.hpp"

namespace unmask::testing::drift_test {
namespace {

constexpr drift_terms all = drift_terms::distance_1 | drift_terms::distance_2 |
                            drift_terms::product | drift_terms::square | drift_terms::previous;

std::array<float, 5> listed(const drift_sums& s) {
  return {s.distance_1, s.distance_2, s.product, s.square, s.previous};
}

template <class T>
void expect_whole_sums(std::uint64_t seed) {
  dice d(seed);
  for (const index_t columns : {0, 1, 2, 31, 32, 33, 63, 64, 65, 100, 1000}) {
    for (const bool is_first : {false, true}) {
      std::vector<T> now;
      std::vector<T> before;
      std::array<float, 5> sums = {};
      for (index_t j = 0; j < columns; ++j) {
        const int h = d.within(-6, 6);
        const int g = is_first ? 0 : d.within(-6, 6);
        now.push_back(encoded<T>(h));
        before.push_back(encoded<T>(g));
        sums[0] += static_cast<float>(std::abs(h - g));
        sums[1] += static_cast<float>((h - g) * (h - g));
        sums[2] += static_cast<float>(h * g);
        sums[3] += static_cast<float>(h * h);
        sums[4] += static_cast<float>(g * g);
      }
      // Behind the columns stands what must not be read.
      now.push_back(encoded<T>(not_a_number));
      before.push_back(encoded<T>(not_a_number));
      const T* const g = is_first ? nullptr : before.data();
      const drift_sums s = canonical::drift_of<all>(now.data(), g, columns);
      EXPECT_EQ(listed(s), sums) << columns;
      EXPECT_EQ(s.columns, columns);
    }
  }
}

TEST(drift_of, is_exact_for_whole_numbers) {
  expect_whole_sums<float>(1);
  expect_whole_sums<bfloat16>(2);
  expect_whole_sums<float16>(3);
}

TEST(drift_of, has_the_terms_that_are_asked_for) {
  const float now[] = {3.0F};
  const float before[] = {1.0F};
  using sums = std::array<float, 5>;
  const auto one = [&]<drift_terms T>() { return listed(canonical::drift_of<T>(now, before, 1)); };
  EXPECT_EQ(one.operator()<drift_terms::distance_1>(), (sums{2, 0, 0, 0, 0}));
  EXPECT_EQ(one.operator()<drift_terms::distance_2>(), (sums{0, 4, 0, 0, 0}));
  EXPECT_EQ(one.operator()<drift_terms::product>(), (sums{0, 0, 3, 0, 0}));
  EXPECT_EQ(one.operator()<drift_terms::square>(), (sums{0, 0, 0, 9, 0}));
  EXPECT_EQ(one.operator()<drift_terms::previous>(), (sums{0, 0, 0, 0, 1}));
}

// 2^24 swallows a 1, so the order shows: lane 0 has columns 0 and 32, and meets lane 16 first.
TEST(drift_of, adds_a_lane_in_ascending_order_and_the_lanes_by_halving) {
  const auto sum = [](std::vector<std::pair<index_t, float>> at) {
    std::vector<float> now(64, 0.0F);
    std::vector<float> before(64, 0.0F);
    for (const auto& [column, x] : at) {
      now[static_cast<std::size_t>(column)] = x < 0.0F ? -1.0F : 1.0F;
      before[static_cast<std::size_t>(column)] = std::fabs(x);
    }
    return canonical::drift_of<drift_terms::product>(now.data(), before.data(), 64).product;
  };
  constexpr float big = 0x1p24F;
  EXPECT_EQ(sum({{0, big}, {32, -big}, {1, 1.0F}}), 1.0F);  // in the lane
  EXPECT_EQ(sum({{0, big}, {16, -big}, {1, 1.0F}}), 1.0F);  // lanes 0 and 16 first
  EXPECT_EQ(sum({{0, big}, {8, -big}, {16, 1.0F}}), 0.0F);  // then 0 and 8
  EXPECT_EQ(sum({{0, big}, {1, -big}, {2, 1.0F}}), 0.0F);   // 0 and 1 last
  EXPECT_EQ(sum({{0, big}, {32, 1.0F}, {33, 1.0F}}), big);  // 1 is lost twice
}

TEST(drift_of, takes_distances_as_positive) {
  EXPECT_EQ(math::bits_of(canonical::absolute(-0.0F)), 0U);
  EXPECT_EQ(canonical::absolute(-2.5F), 2.5F);
  EXPECT_EQ(canonical::absolute(2.5F), 2.5F);
}

TEST(drift_of, a_number_that_is_none_is_none) {
  const float now[] = {1.0F, std::nanf(""), 2.0F};
  const float before[] = {1.0F, 1.0F, 1.0F};
  const drift_sums s = canonical::drift_of<all>(now, before, 3);
  EXPECT_TRUE(std::isnan(s.distance_1));
  EXPECT_TRUE(std::isnan(s.square));
  EXPECT_EQ(s.previous, 3.0F);
}

}  // namespace
}  // namespace unmask::testing::drift_test
