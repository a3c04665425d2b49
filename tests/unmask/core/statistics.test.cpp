// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/core/statistics.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/commit/noise_level.hpp>
#include <unmask/policy/logits/temperature.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/schedule/schedule.hpp>
#include <unmask/policy/stop.hpp>

#include <gtest/gtest.h>

namespace unmask::testing::statistics_test {
namespace {

// Statistics of each shipped policy. A change here is a change of speed for its users.
static_assert(by_confidence::required == stat::confidence);
static_assert(by_margin::required == stat::margin);
static_assert(by_entropy::required == stat::entropy);
static_assert(left_to_right::required == stat::none);
static_assert(at_random::required == stat::none);
static_assert(threshold::required == stat::confidence);
static_assert(tokens_per_step::required == stat::none);
static_assert(steps_per_block::required == stat::none);
static_assert(timesteps::required == stat::none);
static_assert(independent_timesteps::required == stat::none);
static_assert(factor::required == stat::confidence);
static_assert(entropy_bound::required == stat::entropy);
static_assert(temperature::required == stat::none);
static_assert(semi_autoregressive::required == stat::none);
static_assert(single_block::required == stat::none);
static_assert(stop_at_eos::required == stat::none);
static_assert(max_steps::required == stat::none);
static_assert(decltype(by_margin{}, threshold{} && tokens_per_step{})::required ==
              stat::confidence);
static_assert(decltype(threshold{} || entropy_bound{})::required ==
              (stat::confidence | stat::entropy));

TEST(statistics, contain_themselves_and_none) {
  for (const statistics s : {stat::none,
                             stat::confidence,
                             stat::margin,
                             stat::entropy,
                             stat::second_moment,
                             stat::margin | stat::entropy}) {
    SCOPED_TRACE(s.bits);
    EXPECT_TRUE(s.contains(s));
    EXPECT_TRUE(s.contains(stat::none));
    EXPECT_EQ(s | stat::none, s);
    EXPECT_EQ(s | s, s);
  }
}

TEST(statistics, margin_entropy_and_second_moment_bring_the_confidence) {
  EXPECT_TRUE(stat::margin.contains(stat::confidence));
  EXPECT_TRUE(stat::entropy.contains(stat::confidence));
  EXPECT_TRUE(stat::second_moment.contains(stat::confidence));
}

TEST(statistics, are_independent_otherwise) {
  EXPECT_FALSE(stat::none.contains(stat::confidence));
  EXPECT_FALSE(stat::confidence.contains(stat::margin));
  EXPECT_FALSE(stat::confidence.contains(stat::entropy));
  EXPECT_FALSE(stat::margin.contains(stat::entropy));
  EXPECT_FALSE(stat::entropy.contains(stat::margin));
  EXPECT_FALSE(stat::entropy.contains(stat::second_moment));
  EXPECT_FALSE(stat::margin.contains(stat::margin | stat::entropy));
}

TEST(statistics, a_union_contains_both) {
  constexpr statistics both = stat::margin | stat::entropy;
  EXPECT_TRUE(both.contains(stat::margin));
  EXPECT_TRUE(both.contains(stat::entropy));
  EXPECT_FALSE(both.contains(stat::second_moment));
  static_assert(provides<both, stat::margin>);
  static_assert(!provides<both, stat::second_moment>);
}

}  // namespace
}  // namespace unmask::testing::statistics_test
