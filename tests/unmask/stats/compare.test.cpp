// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A row against that of the step before, beside the sums in double precision.
#include <unmask/stats/compare.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "oracles/oracle.hpp"
#include "support/dice.hpp"

namespace unmask::testing::compare_test {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr statistics both = stat::drift | stat::divergence;

/// The sums of compare_chunk() in double precision, and what their rounding is a share of: an error
/// in z - best or z' - best' moves a term by as much times the term.
struct exact_sums {
  double cross = 0.0;
  double shared = 0.0;
  double size = 0.0;

  exact_sums(const std::vector<float>& z,
             const std::vector<float>& then,
             float best,
             const previous_row& before) {
    for (std::size_t j = 0; j < z.size(); ++j) {
      const double d = double{z[j]} - double{best};
      const double e = std::exp(d);
      const double old = before.seen ? double{then[j]} - double{before.best} : -infinity;
      const double log_p = std::max(old - double{before.log_total}, std::log(1e-12));
      cross += e * std::exp(old);
      shared += e * log_p;
      size += e > 0.0 ? e * (1.0 - log_p) * (1.0 - d) : 0.0;
    }
  }

  /// In units of 2^-24: 32 additions of a lane and 6 of the lanes; the products, the differences
  /// and the exponentials (4 each) are fewer than the 26 left.
  [[nodiscard]] double tolerance() const { return 64 * 0x1p-24 * (1.0 + size); }
};

std::vector<float> random_row(dice& d, index_t columns, double absent) {
  std::vector<float> z;
  for (index_t j = 0; j < columns; ++j) {
    z.push_back(d.chance(absent) ? -inf : d.real(-4, 4));
  }
  z[static_cast<std::size_t>(d.within(0, columns - 1))] = 5.0F;
  return z;
}

TEST(compare_chunk, has_the_sums_of_two_rows) {
  dice d(1);
  for (int round = 0; round < 600; ++round) {
    const index_t columns = d.one_of(std::vector<index_t>{1, 2, 63, 64, 65, 127, 128, 129, 2048});
    const double absent = d.one_of(std::vector<double>{0.0, 0.3, 0.9});
    const std::vector<float> z = random_row(d, columns, absent);
    const std::vector<float> then = random_row(d, columns, absent);
    const previous_row before{.seen = true, .best = d.real(4, 6), .log_total = d.real(0, 3)};
    record<both> r = record<both>::empty();
    r.best = d.real(5, 7);  // of the row; the chunk's may be smaller
    r.previous_square = 17.0F;

    std::vector<float> memory = then;
    memory.resize(memory.size() + 64, 8.0F);  // of the next chunk
    canonical::compare_chunk<both>(r, z.data(), memory.data(), columns, before);
    const exact_sums expected(z, then, r.best, before);
    EXPECT_NEAR(r.cross, expected.cross, expected.tolerance());
    EXPECT_NEAR(r.shared, expected.shared, expected.tolerance());
    EXPECT_EQ(r.previous_square, 17.0F);
    for (std::size_t j = 0; j < memory.size(); ++j) {
      ASSERT_EQ(memory[j], j < z.size() ? z[j] : 8.0F) << j;
    }
    ASSERT_FALSE(HasFailure()) << columns << " columns, round " << round;
  }
}

// In a position's first step the memory holds a row of another sequence.
TEST(compare_chunk, takes_no_number_from_a_row_that_was_not_seen) {
  dice d(2);
  for (const float stale : {std::numeric_limits<float>::quiet_NaN(), inf, 3.0F}) {
    for (const index_t columns : {1, 64, 100}) {
      const std::vector<float> z = random_row(d, columns, 0.2);
      const previous_row never{.seen = false, .best = 0.0F, .log_total = 0.0F, .square = 0.0F};
      record<both> r = record<both>::empty();
      r.best = 5.0F;
      std::vector<float> memory(z.size(), stale);
      canonical::compare_chunk<both>(r, z.data(), memory.data(), columns, never);
      const exact_sums expected(z, memory, r.best, never);
      EXPECT_EQ(r.cross, 0.0F);
      EXPECT_NEAR(r.shared, expected.shared, expected.tolerance());
      EXPECT_EQ(memory, z);
    }
  }
}

TEST(compare_chunk, takes_probabilities_below_the_least_one_for_it) {
  const std::vector<float> z = {0.0F, 0.0F, 0.0F};
  std::vector<float> then = {-27.0F, -28.0F, -inf};
  record<both> r = record<both>::empty();
  r.best = 0.0F;
  canonical::compare_chunk<both>(r, z.data(), then.data(), 3, {.seen = true});
  EXPECT_FLOAT_EQ(r.shared, static_cast<float>(-27.0 + 2.0 * std::log(1e-12)));
}

TEST(compare_chunk, is_exact_for_equal_columns) {
  for (const index_t columns : {1, 63, 64, 65, 640}) {
    const std::vector<float> z(static_cast<std::size_t>(columns), 2.0F);
    std::vector<float> then(z.size(), 1.0F);
    record<both> r = record<both>::empty();
    r.best = 2.0F;
    canonical::compare_chunk<both>(
        r, z.data(), then.data(), columns, {.seen = true, .best = 1.0F, .log_total = 2.0F});
    EXPECT_EQ(r.cross, static_cast<float>(columns));
    EXPECT_EQ(r.shared, -2.0F * static_cast<float>(columns));
  }
}

// 2^24 swallows a 1, so the order shows: lane 0 has columns 0 and 64, and meets lane 32 first. The
// weights are 1, and the logarithms those numbers.
TEST(compare_chunk, adds_a_lane_in_ascending_order_and_the_lanes_by_halving) {
  const auto sum = [](const std::vector<std::pair<std::size_t, float>>& at) {
    const std::vector<float> z(128, 0.0F);
    std::vector<float> then(128, 0.0F);
    for (const auto& [column, x] : at) {
      then[column] = x;
    }
    record<stat::divergence> r = record<stat::divergence>::empty();
    r.best = 0.0F;
    canonical::compare_chunk<stat::divergence>(r, z.data(), then.data(), 128, {.seen = true});
    return r.shared;
  };
  constexpr float big = 0x1p24F;
  EXPECT_EQ(sum({{0, big}, {64, 1.0F}, {65, 1.0F}, {32, -2.0F}}), big - 1.0F);
  EXPECT_EQ(sum({{0, big}, {1, 1.0F}, {33, 1.0F}}), big + 2.0F);
  EXPECT_EQ(sum({{0, big}, {32, 1.0F}, {33, 1.0F}}), big);
  EXPECT_EQ(sum({{0, big}, {16, 1.0F}, {48, 1.0F}}), big + 2.0F);
}

TEST(compare_chunk, writes_the_statistics_that_a_record_has) {
  static_assert(canonical::compares<stat::drift> && canonical::compares<stat::divergence>);
  static_assert(!canonical::compares<every_sum>);
  const float z[] = {1.0F, 0.0F};
  float then[] = {0.5F, 0.5F};
  record<every_sum> none = record<every_sum>::empty();
  canonical::compare_chunk<every_sum>(none, z, then, 2, {.seen = true});
  EXPECT_TRUE(same_bits(none, record<every_sum>::empty()));
  EXPECT_EQ(then[0], 0.5F);

  record<stat::drift> turned = record<stat::drift>::empty();
  turned.best = 1.0F;
  canonical::compare_chunk<stat::drift>(turned, z, then, 2, {.seen = true, .best = 0.5F});
  EXPECT_NEAR(turned.cross, 1.0 + std::exp(-1.0), 1e-6);
  record<stat::divergence> moved = record<stat::divergence>::empty();
  moved.best = 1.0F;
  canonical::compare_chunk<stat::divergence>(moved, z, then, 2, {.seen = true, .best = 1.0F});
  EXPECT_NEAR(moved.shared, -std::exp(-1.0), 1e-6);
}

}  // namespace
}  // namespace unmask::testing::compare_test
