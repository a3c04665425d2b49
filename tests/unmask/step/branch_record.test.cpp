// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/step/branch_record.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "support/dice.hpp"

namespace unmask::testing::branch_record_test {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
using branch_list = std::vector<branch_record>;

[[nodiscard]] index_t winner(const branch_list& b) {
  return select_branch(b.data(), static_cast<index_t>(b.size()));
}

TEST(select_branch, takes_the_highest_score) {
  EXPECT_EQ(winner({{0.2F, 3, 0}, {0.9F, 2, 1}, {0.5F, 2, 1}}), 1);
  EXPECT_EQ(winner({{-0.1F, 3, 0}, {-0.9F, 2, 1}}), 0);
}

TEST(select_branch, breaks_ties_by_what_was_committed_and_then_by_the_lower_index) {
  EXPECT_EQ(winner({{0.5F, 3, 0}, {0.5F, 2, 1}, {0.5F, 2, 1}}), 1);
  EXPECT_EQ(winner({{0.5F, 3, 0}, {0.5F, 3, 0}}), 0);
  EXPECT_EQ(winner({{0.5F, 3, 0}, {0.5F, 2, 1}, {0.5F, 1, 2}}), 2);
}

TEST(select_branch, counts_a_branch_with_nothing_left_as_one) {
  EXPECT_EQ(winner({{0.99F, 3, 0}, {nan, 0, 1}}), 1);
  EXPECT_EQ(winner({{1.5F, 3, 0}, {0.0F, 0, 1}}), 0);
}

TEST(select_branch, passes_over_nan_and_falls_back_to_the_anchor) {
  EXPECT_EQ(winner({{nan, 3, 0}, {-5.0F, 2, 1}}), 1);
  EXPECT_EQ(winner({{nan, 3, 0}, {-std::numeric_limits<float>::infinity(), 2, 1}}), 1);
  EXPECT_EQ(winner({{-5.0F, 3, 0}, {nan, 2, 1}}), 0);
  EXPECT_EQ(winner({{nan, 3, 0}, {nan, 2, 1}}), 0);
  EXPECT_EQ(winner(branch_list(4)), 0);
}

TEST(select_branch, elects_the_same_record_in_whatever_order_ranks_list_them) {
  dice d(1);
  for (int round = 0; round < 500; ++round) {
    branch_list all;
    for (int b = 0; b < 5; ++b) {
      all.push_back({static_cast<float>(d.within(0, 2)), d.within(0, 2), d.within(0, 2)});
    }
    const branch_record first = all[static_cast<std::size_t>(winner(all))];
    std::reverse(all.begin(), all.end());
    const branch_record again = all[static_cast<std::size_t>(winner(all))];
    EXPECT_EQ(first.lookahead_score(), again.lookahead_score());
    EXPECT_EQ(first.committed, again.committed);
  }
}

}  // namespace
}  // namespace unmask::testing::branch_record_test
