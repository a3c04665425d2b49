// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The accumulator is a commutative monoid: an identity and a merge that may be grouped at will. The
// streams, the threads and the shards of a vocabulary rest on that.
#include <unmask/stats/row_accumulator.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "oracles/oracle.hpp"

namespace unmask::testing::row_accumulator_test {
namespace {

using accumulator = row_accumulator<every_sum>;

accumulator pushed(const std::vector<float>& z, std::size_t first, std::size_t last) {
  accumulator sum;
  for (std::size_t j = first; j < last; ++j) {
    sum.push(z[j], static_cast<token_id>(j));
  }
  return sum;
}

accumulator merged(accumulator a, const accumulator& b) {
  a.merge(b);
  return a;
}

void expect_same_choice(const accumulator& a, const accumulator& b) {
  EXPECT_EQ(bits_of(a.finish().best), bits_of(b.finish().best));
  EXPECT_EQ(a.finish().token, b.finish().token);
  EXPECT_EQ(a.finish().second, b.finish().second);
  EXPECT_EQ(a.finish().valid(), b.finish().valid());
}

TEST(row_accumulator, starts_with_the_empty_record) {
  EXPECT_TRUE(same_bits(accumulator{}.finish(), record<every_sum>::empty()));
}

TEST(row_accumulator, has_an_exact_identity) {
  for (const scene kind : every_scene) {
    const accumulator row = pushed(hard_row<float>(kind, 200, 1), 0, 200);
    EXPECT_TRUE(same_bits(merged(row, {}).finish(), row.finish()));
    EXPECT_TRUE(same_bits(merged({}, row).finish(), row.finish()));
  }
}

TEST(row_accumulator, commutes_exactly) {
  for (const scene kind : every_scene) {
    for (const std::size_t cut : {1U, 64U, 150U}) {
      const auto z = hard_row<float>(kind, 200, 2);
      const accumulator a = pushed(z, 0, cut);
      const accumulator b = pushed(z, cut, 200);
      EXPECT_TRUE(same_bits(merged(a, b).finish(), merged(b, a).finish()));
    }
  }
}

TEST(row_accumulator, associates_within_rounding) {
  for (const scene kind : every_scene) {
    const auto z = hard_row<float>(kind, 3000, 3);
    const accumulator a = pushed(z, 0, 700);
    const accumulator b = pushed(z, 700, 1500);
    const accumulator c = pushed(z, 1500, 3000);
    const accumulator left = merged(merged(a, b), c);
    const accumulator right = merged(a, merged(b, c));
    expect_same_choice(left, right);
    if (left.finish().valid()) {
      // Each side makes two merges: an exponential (2e-7 = 4 units of 2^-24) and four roundings
      // each, and a shift of d rounded at most four times, which moves e^d by |d| as much. Columns
      // far below weigh e^-86 instead of nothing: less than 2^-100 in all.
      const double unit = 2 * 2 * 8 * 0x1p-24;
      const exact_row x(z);
      const auto size = static_cast<double>(x.sum + x.first);
      EXPECT_NEAR(left.finish().rest, right.finish().rest, unit * size);
      EXPECT_NEAR(left.finish().square, right.finish().square, unit * size);
      EXPECT_NEAR(left.finish().weighted,
                  right.finish().weighted,
                  unit * static_cast<double>(2 * x.first + x.other) + 0x1p-100);
    }
  }
}

TEST(row_accumulator, gives_no_weight_to_logits_far_below) {
  accumulator sum;
  sum.push(2.0F, 5);
  for (token_id v = 10; v < 2000; ++v) {
    sum.push(-3e38F, v);
  }
  EXPECT_LT(sum.finish().rest, 1e-30F);
  EXPECT_EQ(sum.finish().entropy(), 0.0F);
}

TEST(row_accumulator, finds_best_token_and_second_in_any_grouping) {
  dice d(4);
  for (int i = 0; i < 500; ++i) {
    const scene kind = every_scene[static_cast<std::size_t>(i) % std::size(every_scene)];
    const auto z = hard_row<float>(kind, 60, static_cast<std::uint64_t>(i));
    const accumulator expected = pushed(z, 0, 60);
    // Parts in random order, merged two at a time at random.
    std::vector<accumulator> parts;
    for (const index_t j : d.permutation(60)) {
      parts.push_back(pushed(z, static_cast<std::size_t>(j), static_cast<std::size_t>(j) + 1));
    }
    while (parts.size() > 1) {
      const auto a = static_cast<std::size_t>(d.within(0, static_cast<index_t>(parts.size()) - 2));
      parts[a].merge(parts.back());
      parts.pop_back();
    }
    EXPECT_EQ(parts[0].finish().best, expected.finish().best);
    EXPECT_EQ(parts[0].finish().token, expected.finish().token);
    EXPECT_EQ(parts[0].finish().second, expected.finish().second);
    EXPECT_EQ(parts[0].finish().valid(), expected.finish().valid());
  }
}

TEST(row_accumulator, counts_the_second_best_with_multiplicity) {
  accumulator sum;
  sum.push(4.0F, 7);
  sum.push(4.0F, 3);
  EXPECT_EQ(sum.finish().token, 3);
  EXPECT_EQ(sum.finish().second, 4.0F);
  EXPECT_EQ(sum.finish().rest, 1.0F);
  EXPECT_EQ(sum.finish().margin(), 0.0F);
}

TEST(row_accumulator, ignores_absent_columns_exactly) {
  const auto z = hard_row<float>(scene::ordinary, 100, 5);
  accumulator plain;
  accumulator padded;
  for (std::size_t j = 0; j < z.size(); ++j) {
    plain.push(z[j], static_cast<token_id>(j));
    padded.push(-math::infinity(), 1000 + static_cast<token_id>(j));
    padded.push(z[j], static_cast<token_id>(j));
  }
  EXPECT_TRUE(same_bits(plain.finish(), padded.finish()));
}

TEST(row_accumulator, pushed_column_by_column_is_accurate) {
  for (const scene kind : finite_scenes) {
    for (const index_t columns : {1, 2, 30}) {
      const auto z = hard_row<float>(kind, columns, 6);
      SCOPED_TRACE(static_cast<int>(kind));
      const accumulator sum = pushed(z, 0, z.size());
      expect_close(sum.finish(), z);
    }
  }
}

TEST(row_accumulator, of_a_column_is_that_column) {
  constexpr statistics s = every_sum | stat::sampled;
  const record<s> one = row_accumulator<s>::column(-0.5F, 7);
  EXPECT_EQ(one.best, -0.5F);
  EXPECT_EQ(one.token, 7);
  EXPECT_EQ(one.second, -math::infinity());
  EXPECT_EQ(one.rest, 0.0F);
  EXPECT_EQ(one.weighted, 0.0F);
  EXPECT_EQ(one.square, 1.0F);
  EXPECT_EQ(one.drawn, no_token);
  EXPECT_EQ(one.key, -math::infinity());
  EXPECT_TRUE(same_bits(row_accumulator<s>::column(-math::infinity(), 7), record<s>::empty()));
  const record<s> none = row_accumulator<s>::column(math::from_bits(0x7fc00000U), 7);
  EXPECT_EQ(none.token, no_token);
  EXPECT_EQ(none.best, -math::infinity());
  EXPECT_TRUE(math::is_nan(none.rest));
}

// Two parts of a row: the sums of the lower one are scaled by e^shift, at least e^-86.
TEST(row_accumulator, scales_the_lower_part) {
  for (const float apart : {0.0F, 0.5F, 10.0F, 80.0F, 1e4F, 3e38F}) {
    record<every_sum> high = record<every_sum>::empty();
    high.best = 1.0F;
    high.token = 5;
    high.second = 0.5F;
    high.rest = 2.0F;
    high.weighted = -1.5F;
    high.square = 1.25F;
    record<every_sum> low = high;
    low.best = 1.0F - apart;
    low.token = 9;
    low.second = low.best - 0.25F;
    low.rest = 3.0F;
    low.weighted = -2.0F;
    low.square = 1.5F;
    accumulator sum{low};
    sum.merge(accumulator{high});
    const record<every_sum>& r = sum.finish();
    const double shift = std::max(-static_cast<double>(apart), -86.0);
    const double scale = std::exp(shift);
    EXPECT_EQ(r.token, 5);
    EXPECT_EQ(r.second, std::max(low.best, high.second));
    EXPECT_NEAR(r.rest, 2.0 + 4.0 * scale, 2e-6);
    EXPECT_NEAR(r.weighted, -1.5 + scale * (-2.0 + 4.0 * shift), 2e-6);
    EXPECT_NEAR(r.square, 1.25 + scale * scale * 1.5, 2e-6);
  }
}

TEST(row_accumulator, of_a_part_without_a_finite_column_adds_its_sum_only) {
  for (const float rest : {0.0F, math::from_bits(0x7fc00000U)}) {
    accumulator some = pushed(hard_row<float>(scene::ordinary, 50, 8), 0, 50);
    const record<every_sum> before = some.finish();
    record<every_sum> none = record<every_sum>::empty();
    none.rest = rest;
    some.merge(accumulator{none});
    record<every_sum> expected = before;
    expected.rest = before.rest + rest;
    EXPECT_TRUE(same_bits(some.finish(), expected));
  }
}

}  // namespace
}  // namespace unmask::testing::row_accumulator_test
