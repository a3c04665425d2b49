// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The accumulator is a commutative monoid: an identity and a merge that may be grouped at will. The
// streams, the threads and the shards of a vocabulary rest on that.
#include <unmask/stats/row_accumulator.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "oracles/oracle.hpp"

namespace unmask::testing {
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
  EXPECT_EQ(identity(a.finish().best), identity(b.finish().best));
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

}  // namespace
}  // namespace unmask::testing
