// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The columns of highest rank, beside a sorted list of all of them.
#include <unmask/core/part/held_list.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "support/dice.hpp"

namespace unmask::testing::held_list_test {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

template <index_t Capacity>
std::vector<std::pair<float, token_id>> columns_of(const held_list<Capacity>& list) {
  std::vector<std::pair<float, token_id>> all;
  for (index_t i = 0; i < list.size(); ++i) {
    all.emplace_back(list[i].logit, list[i].token);
  }
  return all;
}

TEST(rank_key, orders_columns_as_ranks_before_and_holds_them) {
  std::vector<ranked_token> columns;
  for (const float logit : {-inf, -3e38F, -1.0F, -1e-45F, 0.0F, 1e-45F, 1.0F, 3e38F, inf}) {
    for (const token_id token : {0, 1, 0x7ffffffe}) {
      columns.push_back({logit, token});
    }
  }
  for (const ranked_token& a : columns) {
    const std::uint64_t key = rank_key(a.logit, a.token);
    EXPECT_GT(key, 0U);
    EXPECT_EQ(ranked(key).logit, a.logit);
    EXPECT_EQ(ranked(key).token, a.token);
    for (const ranked_token& b : columns) {
      EXPECT_EQ(key > rank_key(b.logit, b.token), ranks_before(a, b));
    }
  }
  EXPECT_EQ(rank_key(-0.0F, 3), rank_key(0.0F, 3));
}

TEST(held_list, holds_the_first_columns_in_any_order_of_pushes_and_merges) {
  constexpr index_t capacity = 6;
  dice d(3);
  for (int round = 0; round < 400; ++round) {
    const index_t count = d.within(0, 14);
    held_list<capacity> whole;
    held_list<capacity> left;
    held_list<4> right;  // the last four columns at most
    std::vector<std::pair<float, token_id>> expected;
    const std::vector<std::int32_t> order = d.permutation(count);
    for (const token_id token : order) {
      const float logit = d.chance(0.1)   ? -inf
                          : d.chance(0.1) ? std::numeric_limits<float>::quiet_NaN()
                                          : static_cast<float>(d.within(-2, 2));
      whole.push(logit, token);
      token < count - 4 ? left.push(logit, token) : right.push(logit, token);
      if (logit > -inf) {
        expected.emplace_back(logit, token);
      }
    }
    std::ranges::sort(expected, [](const auto& a, const auto& b) {
      return a.first > b.first || (a.first == b.first && a.second < b.second);
    });
    const bool is_full = expected.size() >= capacity;
    expected.resize(std::min(expected.size(), std::size_t{capacity}));
    EXPECT_EQ(columns_of(whole), expected);
    EXPECT_EQ(whole.full(), is_full);
    EXPECT_EQ(whole.threshold(), is_full ? expected.back().first : -inf);
    left.merge(right);
    EXPECT_EQ(columns_of(left), expected);
    whole.clear();
    EXPECT_EQ(whole.size(), 0);
    EXPECT_EQ(whole.threshold(), -inf);
  }
}

TEST(truncation, keeps_all_only_where_no_rule_drops_a_column) {
  EXPECT_TRUE(truncation{}.keeps_all(1 << 30));
  const truncation all{.tokens = 10};
  EXPECT_TRUE(all.keeps_all(10));
  EXPECT_FALSE(all.keeps_all(11));
  EXPECT_FALSE((truncation{.tokens = 10, .mass = 0.9F}.keeps_all(10)));
  EXPECT_FALSE((truncation{.tokens = 10, .ratio = 1e-30F}.keeps_all(10)));
}

TEST(truncation, of_two_is_the_tighter_of_each_rule) {
  const truncation a{.tokens = 5, .mass = 0.9F, .ratio = 0.1F};
  const truncation b{.tokens = 7, .mass = 0.8F, .ratio = 0.2F, .renormalises = true};
  for (const truncation& both : {a.tightened(b), b.tightened(a)}) {
    EXPECT_EQ(both.tokens, 5);
    EXPECT_EQ(both.mass, 0.8F);
    EXPECT_EQ(both.ratio, 0.2F);
    EXPECT_TRUE(both.renormalises);
  }
  EXPECT_FALSE(a.tightened(a).renormalises);
}

}  // namespace
}  // namespace unmask::testing::held_list_test
