// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Which keys a layer keeps, beside a sort; rows that are gathered and scattered.

#include <unmask/host/key_selector.hpp>
#include <unmask/host/rows.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "support/dice.hpp"

namespace unmask::testing::key_selector_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<index_t>
selected(const std::vector<float>& scores, range block, double keep, index_t pool) {
  host::key_selector selector(static_cast<index_t>(scores.size()));
  const auto kept = selector.select(scores, block, keep, pool);
  return {kept.begin(), kept.end()};
}

/// The definition: pool over what is left when the block is cut out, sort, take the first.
std::vector<index_t>
sorted_selection(const std::vector<float>& scores, range block, double keep, index_t pool) {
  std::vector<index_t> outside;
  for (index_t p = 0; p < static_cast<index_t>(scores.size()); ++p) {
    if (!block.contains(p)) {
      outside.push_back(p);
    }
  }
  std::vector<float> pooled;
  const auto count = static_cast<index_t>(outside.size());
  for (index_t i = 0; i < count; ++i) {
    float best = -HUGE_VALF;
    for (index_t j = std::max(0, i - pool / 2); j <= std::min(count - 1, i + pool / 2); ++j) {
      best = std::max(best, scores[static_cast<std::size_t>(outside[static_cast<std::size_t>(j)])]);
    }
    pooled.push_back(best);
  }
  std::vector<std::size_t> order(pooled.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return pooled[a] > pooled[b];
  });
  order.resize(static_cast<std::size_t>(keep * count));
  std::vector<index_t> kept;
  for (const std::size_t i : order) {
    kept.push_back(outside[i]);
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

TEST(KeySelector, KeepsTheHighestOutsideTheBlock) {
  EXPECT_THAT(selected({1, 9, 2, 8, 3, 7}, {2, 4}, 0.5, 1), ElementsAre(1, 5));
  EXPECT_THAT(selected({1, 9, 2, 8, 3, 7}, {2, 4}, 0.0, 1), IsEmpty());
  EXPECT_THAT(selected({1, 9, 2, 8, 3, 7}, {2, 4}, 1.0, 1), ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(selected({5, 5, 0, 5, 5}, {2, 3}, 0.5, 1), ElementsAre(0, 1));
}

TEST(KeySelector, PoolsAcrossTheBlock) {
  // 9 lifts its neighbours 0 and, across the block, 4.
  EXPECT_THAT(selected({1, 9, 0, 0, 1, 1, 1}, {2, 4}, 0.6, 3), ElementsAre(0, 1, 4));
}

TEST(KeySelector, AgreesWithASort) {
  host::key_selector selector(200);
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    dice d(seed);
    std::vector<float> scores;
    const index_t count = d.within(1, 200);
    for (index_t i = 0; i < count; ++i) {
      scores.push_back(d.chance(0.3) ? 0.0F : d.real(-2.0, 2.0));
    }
    const index_t first = d.within(0, count);
    const range block{first, d.within(first, count)};
    const double keep = d.real(0.0, 1.0);
    const index_t pool = 2 * d.within(0, 3) + 1;
    const auto kept = selector.select(scores, block, keep, pool);
    EXPECT_EQ(std::vector<index_t>(kept.begin(), kept.end()),
              sorted_selection(scores, block, keep, pool));
  }
}

TEST(KeySelector, RanksNaNHighestAndInfinitiesAsScores) {
  EXPECT_THAT(selected({1, std::nanf(""), HUGE_VALF, 3}, {0, 0}, 0.25, 1), ElementsAre(1));
  EXPECT_THAT(selected({1, std::nanf(""), HUGE_VALF, 3}, {0, 0}, 0.5, 1), ElementsAre(1, 2));
  EXPECT_THAT(selected({HUGE_VALF, 2, HUGE_VALF, 3}, {0, 0}, 0.25, 1), ElementsAre(0));
  EXPECT_THAT(selected({-HUGE_VALF, 2, -HUGE_VALF, 3}, {0, 0}, 1.0, 1), ElementsAre(0, 1, 2, 3));
}

TEST(KeySelector, NamesWhatItRefuses) {
  host::key_selector selector(3);
  const auto why = [&](std::size_t scores, range block, double keep, index_t pool) -> std::string {
    try {
      static_cast<void>(selector.select(std::vector<float>(scores), block, keep, pool));
    } catch (const std::invalid_argument& refused) {
      return refused.what();
    }
    return "nothing";
  };
  EXPECT_EQ(why(4, {0, 1}, 0.5, 1),
            "scores must be at most as many as the selector's length, 3, got 4");
  EXPECT_EQ(why(3, {-1, 1}, 0.5, 1),
            "first position of the block must be in [0, the last = 1], got -1");
  EXPECT_EQ(why(3, {2, 1}, 0.5, 1),
            "first position of the block must be in [0, the last = 1], got 2");
  EXPECT_EQ(why(2, {1, 3}, 0.5, 1),
            "last position of the block must be at most the number of scores, 2, got 3");
  EXPECT_EQ(why(3, {0, 1}, 1.5, 1), "keep must be in [0, 1], got 1.5");
  EXPECT_EQ(why(3, {0, 1}, 0.5, 2), "pool must be odd and at least 1, got 2");
  EXPECT_EQ(why(3, {0, 3}, 1.0, 1), "nothing");
  // More scores than can be counted, of memory that is not read.
  const float one = 0.0F;
  EXPECT_THROW(
      static_cast<void>(selector.select({&one, (std::size_t{1} << 32U) + 2}, {0, 1}, 0.5, 1)),
      std::invalid_argument);
}

TEST(ScoreKeys, AreProducts) {
  const std::vector<float> keys{1, 2, 3, 99, 4, 5, 6, 99};
  const std::vector<float> query{1, 0, 2};
  std::vector<float> out(2);
  host::score_keys<float>({keys.data(), 2, 3, 4}, query, out);
  EXPECT_THAT(out, ElementsAre(7, 16));
  EXPECT_THROW(host::score_keys<float>({keys.data(), 2, 4, 4}, query, out), std::invalid_argument);
  EXPECT_THROW(host::score_keys<float>({keys.data(), 2, 3, 4}, query, std::span(out).first(1)),
               std::invalid_argument);
}

TEST(Rows, AreGatheredInPlaceAndElsewhere) {
  std::vector<float> rows{0, 1, 9, 10, 11, 9, 20, 21, 9, 30, 31, 9};
  const std::vector<index_t> wanted{0, 2, 3};
  std::vector<float> out(6);
  host::gather_rows<float>({rows.data(), 4, 2, 3}, wanted, out.data(), 2);
  EXPECT_THAT(out, ElementsAre(0, 1, 20, 21, 30, 31));
  host::gather_rows<float>({rows.data(), 4, 2, 3}, wanted, rows.data(), 3);
  EXPECT_THAT(rows, ElementsAre(0, 1, 9, 20, 21, 9, 30, 31, 9, 30, 31, 9));
}

TEST(Rows, AreScatteredWhereThereIsRoom) {
  const std::vector<float> rows{1, 2, 3};
  std::vector<float> memory(4, 0.0F);
  const std::vector<index_t> positions{4, 6, 9};
  host::scatter_rows<float>({rows.data(), 3, 1}, positions, {memory.data(), range{5, 9}, 1, 1});
  EXPECT_THAT(memory, ElementsAre(0, 2, 0, 0));
}

TEST(key_selection, takes_its_arguments_at_the_ends_of_their_ranges) {
  const auto takes = [](const step::key_selection<float>& s) {
    try {
      s.check(8);
    } catch (const std::invalid_argument&) {
      return false;
    }
    return true;
  };
  const step::key_selection<float> good{.positions = 8, .block = {2, 5}, .keep = 0.5, .pool = 3};
  const auto with = [&](const auto& change) {
    step::key_selection<float> s = good;
    change(s);
    return takes(s);
  };
  const auto takes_positions = [&](index_t n) {
    return with([n](auto& s) { s.positions = n, s.block = {0, 0}; });
  };
  EXPECT_TRUE(takes_positions(0) && takes_positions(8));
  EXPECT_FALSE(takes_positions(-1) || takes_positions(9));
  const auto takes_block = [&](range b) { return with([b](auto& s) { s.block = b; }); };
  EXPECT_TRUE(takes_block({0, 8}) && takes_block({0, 0}) && takes_block({8, 8}));
  EXPECT_FALSE(takes_block({-1, 3}) || takes_block({3, 2}) || takes_block({3, 9}));
  const auto takes_keep = [&](double k) { return with([k](auto& s) { s.keep = k; }); };
  EXPECT_TRUE(takes_keep(0.0) && takes_keep(1.0));
  EXPECT_FALSE(takes_keep(-0.01) || takes_keep(1.01) || takes_keep(std::nan("")));
  const auto takes_pool = [&](index_t n) { return with([n](auto& s) { s.pool = n; }); };
  EXPECT_TRUE(takes_pool(1) && takes_pool(5));
  EXPECT_FALSE(takes_pool(0) || takes_pool(2) || takes_pool(-1));
}

}  // namespace
}  // namespace unmask::testing::key_selector_test
