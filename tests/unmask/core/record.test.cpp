// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/core/record.hpp>
#include <unmask/stats/row_accumulator.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "oracles/naive_decoder.hpp"
#include "support/dice.hpp"

namespace unmask::testing::record_test {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr statistics everything = stat::margin | stat::entropy | stat::second_moment;

// 8 bytes, and 4 more for each number that the set names.
static_assert(sizeof(record<stat::none>) == 8);
static_assert(sizeof(record<stat::confidence>) == 12);
static_assert(sizeof(record<stat::margin>) == 16);
static_assert(sizeof(record<stat::entropy>) == 16);
static_assert(sizeof(record<stat::second_moment>) == 16);
static_assert(sizeof(record<everything>) == 24);
static_assert(std::is_trivially_copyable_v<record<everything>>);
static_assert(std::is_trivially_copyable_v<candidate<everything>>);

template <statistics S = everything>
record<S> record_of(const std::vector<float>& row) {
  row_accumulator<S> sum;
  for (std::size_t v = 0; v < row.size(); ++v) {
    sum.push(row[v], static_cast<token_id>(v));
  }
  return sum.finish();
}

TEST(record, of_the_published_row_has_the_published_numbers) {
  // policies.md, L17.
  const record<everything> r = record_of({1.0F, 3.0F, 3.0F, -2.0F, -inf, 0.5F});
  EXPECT_EQ(r.best, 3.0F);
  EXPECT_EQ(r.token, 1);
  EXPECT_EQ(r.second, 3.0F);
  EXPECT_NEAR(r.total(), 2.224158F, 1e-6F);
  EXPECT_NEAR(r.weighted, -0.509573F, 1e-6F);
  EXPECT_NEAR(r.square, 2.025099F, 1e-6F);
  EXPECT_NEAR(r.confidence(), 0.449608F, 1e-6F);
  EXPECT_NEAR(r.entropy(), 1.028487F, 1e-6F);
  EXPECT_NEAR(r.second_moment(), 0.409369F, 1e-6F);
  EXPECT_NEAR(r.second_probability(), 0.449608F, 1e-6F);
  EXPECT_EQ(r.margin(), 0.0F);
  EXPECT_NEAR(r.log_partition(), 3.0F + std::log(2.224158F), 1e-6F);
}

TEST(record, agrees_with_the_definitions) {
  dice d(5);
  for (int i = 0; i < 2000; ++i) {
    std::vector<float> row;
    std::vector<double> exact;
    for (int v = d.within(1, 200); v > 0; --v) {
      row.push_back(d.chance(0.05) ? -inf : d.real(-8.0, 8.0));
      exact.push_back(row.back());
    }
    const naive_row expected = naive_statistics(0, exact);
    const record<everything> r = record_of(row);
    if (!expected.valid) {
      ASSERT_FALSE(r.valid());
      continue;
    }
    // 200 additions, each within 2^-24 of numbers that add up to the result.
    ASSERT_EQ(r.token, expected.token);
    ASSERT_NEAR(r.confidence(), expected.confidence, 1e-5);
    ASSERT_NEAR(r.margin(), expected.margin, 1e-5);
    ASSERT_NEAR(r.entropy(), expected.entropy, 1e-4);
    ASSERT_NEAR(r.log_probability(), expected.log_probability, 1e-5);
  }
}

TEST(record, of_one_column_is_certain) {
  const record<everything> r = record_of({-7.5F});
  EXPECT_EQ(r.token, 0);
  EXPECT_EQ(r.confidence(), 1.0F);
  EXPECT_EQ(r.log_probability(), 0.0F);
  EXPECT_FALSE(std::signbit(r.log_probability())) << "a trace would show -0";
  EXPECT_EQ(r.margin(), 1.0F);
  EXPECT_EQ(r.second_probability(), 0.0F);
  EXPECT_EQ(r.entropy(), 0.0F);
  EXPECT_EQ(r.second_moment(), 1.0F);
  EXPECT_EQ(r.log_partition(), -7.5F);
}

// Sums that round may leave a little less than the runner-up has.
TEST(record, gives_the_runner_up_a_half_at_most) {
  record<everything> r = record_of({2.0F, 2.0F});
  EXPECT_EQ(r.second_probability(), 0.5F);
  r.rest = 1.0F - 3e-7F;
  EXPECT_GT(1.0F / r.total(), 0.5F);
  EXPECT_EQ(r.second_probability(), 0.5F);
}

TEST(record, keeps_the_log_probability_of_an_almost_certain_token) {
  const record<stat::confidence> r = record_of<stat::confidence>({0.0F, -20.0F});
  EXPECT_EQ(r.confidence(), 1.0F) << "the probability itself rounds to one";
  EXPECT_NEAR(r.log_probability() / -std::exp(-20.0), 1.0, 1e-6);
}

TEST(record, gives_a_tie_to_the_lowest_token) {
  const record<stat::none> r = record_of<stat::none>({1.0F, 2.0F, 2.0F, 2.0F});
  EXPECT_EQ(r.token, 1);
}

TEST(record, of_no_column_is_invalid_and_has_no_token) {
  for (const record<everything>& r : {record<everything>::empty(), record_of({-inf, -inf})}) {
    EXPECT_FALSE(r.valid());
    EXPECT_EQ(r.best, -inf);
    EXPECT_EQ(r.token, no_token);
  }
}

TEST(record, with_a_nan_is_invalid_but_knows_the_best_of_the_rest) {
  const record<everything> r = record_of({1.0F, nan, 4.0F, 2.0F});
  EXPECT_FALSE(r.valid());
  EXPECT_EQ(r.token, 2);
  EXPECT_EQ(r.best, 4.0F);
}

TEST(record, with_an_infinite_logit_is_invalid) {
  EXPECT_FALSE(record_of({1.0F, inf, 4.0F}).valid());
  EXPECT_FALSE(record_of({inf, inf}).valid());
}

TEST(record, has_an_entropy_that_is_never_negative) {
  dice d(6);
  for (int i = 0; i < 20'000; ++i) {
    const float far = d.real(5.0, 100.0);
    const record<stat::entropy> r = record_of<stat::entropy>({far, 0.0F, d.real(-5.0, 0.0)});
    ASSERT_GE(r.entropy(), 0.0F) << far;
  }
}

TEST(record, narrowed_holds_the_same_numbers) {
  const record<everything> r = record_of({1.0F, 3.0F, 2.5F, -2.0F});
  EXPECT_EQ(r.narrowed<stat::none>().token, 1);
  EXPECT_EQ(r.narrowed<stat::none>().best, 3.0F);
  EXPECT_EQ(r.narrowed<stat::confidence>().confidence(), r.confidence());
  EXPECT_EQ(r.narrowed<stat::margin>().margin(), r.margin());
  EXPECT_EQ(r.narrowed<stat::entropy>().entropy(), r.entropy());
  EXPECT_EQ(r.narrowed<stat::second_moment>().second_moment(), r.second_moment());
}

TEST(candidate, narrowed_keeps_its_place) {
  const auto c = candidate<everything>::of(record_of({1.0F, 3.0F}), 17, 5);
  const candidate<stat::margin> narrow = c.as<stat::margin>();
  EXPECT_EQ(narrow.position, 17);
  EXPECT_EQ(narrow.current, 5);
  EXPECT_EQ(narrow.token, 1);
  EXPECT_EQ(narrow.margin(), c.margin());
}

template <class C>
constexpr bool has_entropy = requires(const C& c) { c.entropy(); };
template <class C>
constexpr bool has_margin = requires(const C& c) { c.margin(); };
template <class C>
constexpr bool has_confidence = requires(const C& c) { c.confidence(); };

TEST(candidate, offers_only_what_its_set_names) {
  static_assert(!has_confidence<candidate<stat::none>>);
  static_assert(has_confidence<candidate<stat::confidence>>);
  static_assert(has_confidence<candidate<stat::margin>>);
  static_assert(!has_margin<candidate<stat::entropy>>);
  static_assert(has_margin<candidate<stat::margin>>);
  static_assert(!has_entropy<candidate<stat::margin>>);
  static_assert(has_entropy<candidate<stat::entropy | stat::margin>>);
}

}  // namespace
}  // namespace unmask::testing::record_test
