// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/core/random.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

namespace unmask::testing::random_test {
namespace {

token_id as_token(std::uint32_t word) {
  return static_cast<token_id>(word);
}

// kat_vectors of the Random123 distribution, philox4x32 10: the first word of each answer.
TEST(random_bits, are_the_published_ones_of_philox) {
  EXPECT_EQ(random_bits({}), 0x6627e8d5U);
  EXPECT_EQ(random_bits({.seed = 0xffffffffffffffffU,
                         .sequence = 0xffffffffU,
                         .step = as_token(0xffffffffU),
                         .position = as_token(0xffffffffU),
                         .token = as_token(0xffffffffU)}),
            0x408f276dU);
  EXPECT_EQ(random_bits({.seed = 0x299f31d0a4093822U,
                         .sequence = 0x03707344U,
                         .step = as_token(0x13198a2eU),
                         .position = as_token(0x85a308d3U),
                         .token = as_token(0x243f6a88U)}),
            0xd16cfe09U);
}

TEST(random_bits, depend_on_every_part_of_the_key) {
  const std::set<std::uint32_t> different = {random_bits({}),
                                             random_bits({.seed = 1}),
                                             random_bits({.seed = std::uint64_t{1} << 32U}),
                                             random_bits({.sequence = 1}),
                                             random_bits({.step = 1}),
                                             random_bits({.position = 1}),
                                             random_bits({.token = 1})};
  EXPECT_EQ(different.size(), 7U);
}

TEST(random_uniform, is_never_zero_and_never_one) {
  // The keys, found by search, whose bits are 0x0000009a and 0xffffff88.
  const float low = random_uniform({.position = 1224113});
  const float high = random_uniform({.position = 5150801});
  ASSERT_EQ(random_bits({.position = 1224113}), 0x9aU);
  ASSERT_EQ(random_bits({.position = 5150801}), 0xffffff88U);
  EXPECT_GT(low, 0.0F);
  EXPECT_LT(low, 1e-6F);
  EXPECT_LT(high, 1.0F);
  EXPECT_GT(high, 1.0F - 1e-6F);
  // Symmetrical, as (r + 1/2) / 2^n is.
  EXPECT_EQ(low, 1.0F - high);
}

TEST(random_uniform, is_uniform) {
  constexpr int cells = 64;
  constexpr int draws = 1 << 18;
  std::vector<int> count(cells);
  for (index_t i = 0; i < draws; ++i) {
    const float u = random_uniform({.seed = 7, .step = i % 16, .position = i / 16, .token = -1});
    ++count[static_cast<std::size_t>(u * cells)];
  }
  double chi_squared = 0.0;
  for (const int n : count) {
    const double expected = static_cast<double>(draws) / cells;
    chi_squared += (n - expected) * (n - expected) / expected;
  }
  // 63 degrees of freedom: mean 63, deviation 11.2; five deviations either way.
  EXPECT_GT(chi_squared, 7.0);
  EXPECT_LT(chi_squared, 119.0);
}

TEST(random_uniform, of_neighbouring_keys_is_uncorrelated) {
  double sum = 0.0;
  constexpr int pairs = 1 << 16;
  for (index_t p = 0; p < pairs; ++p) {
    const double a = random_uniform({.seed = 3, .position = p}) - 0.5;
    const double b = random_uniform({.seed = 3, .step = 1, .position = p}) - 0.5;
    sum += 12.0 * a * b;
  }
  EXPECT_LT(std::fabs(sum / pairs), 5.0 / std::sqrt(static_cast<double>(pairs)));
}

// The tail decides races of many: the largest of 126,464 numbers stays near its own double, where
// 23 bits would leave one of 8 million values.
TEST(gumbel_of_32_bits, is_the_double_of_its_bits_in_both_tails) {
  double largest = 0.0;
  double smallest = 0.0;
  double mean = 0.0;
  constexpr int count = 200000;
  for (int i = 0; i < count; ++i) {
    const std::uint32_t bits = random_bits({.seed = 9, .token = i});
    const double u = (static_cast<double>(bits) + 0.5) * 0x1p-32;
    const double expected = -std::log(-std::log(u));
    const double got = static_cast<double>(gumbel_of_32_bits(bits));
    ASSERT_NEAR(got, expected, 1e-6 * (1.0 + std::abs(expected)));
    largest = std::max(largest, got);
    smallest = std::min(smallest, got);
    mean += got / count;
  }
  EXPECT_GT(largest, 10.0);
  EXPECT_LT(smallest, -2.2);
  EXPECT_NEAR(mean, 0.5772, 4.0 * 1.2825 / std::sqrt(count));
}

TEST(most_gumbel_of_32_bits, is_not_passed_and_at_most_a_bit_above) {
  const auto expect_bound = [](std::uint32_t bits) {
    const float most = most_gumbel_of_32_bits(bits);
    EXPECT_GE(most + 1e-5F, gumbel_of_32_bits(bits)) << bits;
    if (bits >= 0x80000000U && bits != 0xffffffffU) {
      EXPECT_LE(most, gumbel_of_32_bits(bits) + 1.1F) << bits;
    }
  };
  for (unsigned shift = 0; shift < 32; ++shift) {
    for (std::uint32_t near = 0; near < 8; ++near) {
      expect_bound(~((1U << shift) + near - 4));
      expect_bound((1U << shift) + near - 4);
    }
  }
  for (int i = 0; i < 20000; ++i) {
    expect_bound(random_bits({.seed = 10, .token = i}));
  }
}

}  // namespace
}  // namespace unmask::testing::random_test
