// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/core/math.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "support/fake_logits.hpp"

namespace unmask::testing::math_test {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

double relative_error(float got, double exact) {
  return std::fabs(static_cast<double>(got) - exact) / std::fabs(exact);
}

/// Distance in units of the last place of `exact`.
double ulps(float got, double exact) {
  const auto nearest = static_cast<float>(exact);
  const float next = std::nextafter(std::fabs(nearest), inf);
  const double unit = static_cast<double>(next) - static_cast<double>(std::fabs(nearest));
  return std::fabs(static_cast<double>(got) - exact) / unit;
}

TEST(exp_nonpositive, of_zero_is_exactly_one) {
  EXPECT_EQ(math::exp_nonpositive(0.0F), 1.0F);
  EXPECT_EQ(math::exp_nonpositive(-0.0F), 1.0F);
}

TEST(exp_nonpositive, is_as_good_as_it_says_down_to_its_floor) {
  // The polynomial and the last rounding, and the rounding of log2(e), which x multiplies.
  for (int i = 0; i <= 4'300'000; ++i) {
    const float x = -static_cast<float>(i) * 2e-5F;
    const double error = relative_error(math::exp_nonpositive(x), std::exp(double{x}));
    ASSERT_LT(error, 1.7e-7 + 1.4e-8 * std::fabs(double{x})) << x;
  }
}

TEST(exp_nonpositive, stays_a_positive_normal_number_below_its_floor) {
  const float least = math::exp_nonpositive(math::exp_floor);
  EXPECT_GE(least, std::numeric_limits<float>::min());
  EXPECT_LT(least, 1e-37F);
  EXPECT_EQ(math::exp_nonpositive(-86.5F), least);
  EXPECT_EQ(math::exp_nonpositive(-1e30F), least);
  EXPECT_EQ(math::exp_nonpositive(-inf), least);
}

TEST(exp_nonpositive, keeps_nan) {
  EXPECT_TRUE(std::isnan(math::exp_nonpositive(nan)));
  EXPECT_TRUE(std::isnan(math::exp_nonpositive(-nan)));
}

TEST(exp2, of_an_integer_is_exact) {
  for (int n = -124; n <= 120; ++n) {
    EXPECT_EQ(math::exp2(static_cast<float>(n)), std::ldexp(1.0F, n));
  }
  EXPECT_EQ(math::exp2(-0.0F), 1.0F);
}

TEST(exp2, is_as_good_as_it_says) {
  for (int i = 0; i <= 2'480'000; ++i) {
    const float t = math::exp2_floor + static_cast<float>(i) * 1e-4F;
    ASSERT_LT(relative_error(math::exp2(t), std::exp2(double{t})), 1.7e-7) << t;
  }
}

TEST(exp2, keeps_nan) {
  EXPECT_TRUE(std::isnan(math::exp2(nan)));
  EXPECT_TRUE(std::isnan(math::exp2(-nan)));
}

TEST(log, is_good_to_two_ulp) {
  dice d(1);
  double worst = 0.0;
  for (int i = 0; i < 1'000'000; ++i) {
    // Every exponent of a normal number, every mantissa alike.
    const auto exponent = static_cast<std::uint32_t>(d.within(1, 254));
    const float x = math::from_bits((exponent << 23U) | (d.bits() & 0x7fffffU));
    worst = std::max(worst, ulps(math::log(x), std::log(double{x})));
  }
  EXPECT_LT(worst, 2.0);
}

TEST(log, is_good_to_two_ulp_around_one) {
  double worst = 0.0;
  for (int i = -400'000; i <= 800'000; ++i) {
    const float x = math::from_bits(math::bits_of(1.0F) + static_cast<std::uint32_t>(i * 8));
    if (x != 1.0F) {
      worst = std::max(worst, ulps(math::log(x), std::log(double{x})));
    }
  }
  EXPECT_LT(worst, 2.0);
  EXPECT_EQ(math::log(1.0F), 0.0F);
}

TEST(log1p, is_accurate_where_one_plus_x_rounds_to_one) {
  for (const float x : {1e-30F, 1e-12F, 3e-9F, 1e-7F, 2e-7F, 1e-5F}) {
    SCOPED_TRACE(x);
    EXPECT_LT(relative_error(math::log1p(x), std::log1p(double{x})), 2e-7);
  }
  EXPECT_EQ(math::log1p(0.0F), 0.0F);
}

TEST(log1p, is_accurate_over_every_sum_that_a_row_can_have) {
  dice d(2);
  double worst = 0.0;
  for (int i = 0; i < 1'000'000; ++i) {
    const float x = std::exp(d.real(-20.0, 20.0));
    worst = std::max(worst, relative_error(math::log1p(x), std::log1p(double{x})));
  }
  EXPECT_LT(worst, 4e-7);  // two ulp of the logarithm, half an ulp of the sum
}

TEST(log1p, keeps_nan_and_infinity) {
  EXPECT_TRUE(std::isnan(math::log1p(nan)));
  EXPECT_EQ(math::log1p(inf), inf);
}

TEST(pow_of_probability, follows_the_power) {
  dice d(3);
  for (int i = 0; i < 100'000; ++i) {
    const float p = d.real(1e-6, 1.0);
    const float e = d.real(0.01, 2.0);
    // The exponent multiplies the rounding of the logarithm: |e ln p| 2^-23 on top of that of exp.
    const double exact = std::pow(double{p}, double{e});
    ASSERT_LT(relative_error(math::pow_of_probability(p, e), exact), 6e-6) << p << " ^ " << e;
  }
}

TEST(pow_of_probability, knows_its_ends) {
  EXPECT_EQ(math::pow_of_probability(1.0F, 0.2F), 1.0F);
  EXPECT_EQ(math::pow_of_probability(0.0F, 0.2F), 0.0F);
  EXPECT_EQ(math::pow_of_probability(0.0F, 0.0F), 1.0F);
  EXPECT_EQ(math::pow_of_probability(0.5F, 0.0F), 1.0F);
  for (const float p : {1.2e-38F, 1.3e-38F}) {  // the least normal numbers
    EXPECT_LT(relative_error(math::pow_of_probability(p, 0.5F), std::sqrt(double{p})), 6e-6);
  }
}

TEST(is_finite, is_false_for_nan_and_both_infinities_only) {
  EXPECT_TRUE(math::is_finite(0.0F));
  EXPECT_TRUE(math::is_finite(-std::numeric_limits<float>::max()));
  EXPECT_TRUE(math::is_finite(std::numeric_limits<float>::denorm_min()));
  EXPECT_FALSE(math::is_finite(inf));
  EXPECT_FALSE(math::is_finite(-inf));
  EXPECT_FALSE(math::is_finite(nan));
}

TEST(is_nan, is_true_for_nan_only) {
  EXPECT_TRUE(math::is_nan(nan));
  EXPECT_TRUE(math::is_nan(-nan));
  EXPECT_TRUE(math::is_nan(math::from_bits(0x7f800001U)));
  EXPECT_FALSE(math::is_nan(inf));
  EXPECT_FALSE(math::is_nan(-inf));
  EXPECT_FALSE(math::is_nan(0.0F));
}

template <class T>
void expect_every_number_read() {
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const T x{static_cast<std::uint16_t>(bits)};
    const double exact = decoded(x);
    const float got = math::to_float(x);
    if (std::isnan(exact)) {
      ASSERT_TRUE(math::is_nan(got)) << bits;
    } else {
      ASSERT_EQ(got, exact) << bits;
      ASSERT_EQ(std::signbit(got), (bits & 0x8000U) != 0) << bits;
    }
  }
}

TEST(to_float, reads_every_bfloat16) {
  expect_every_number_read<bfloat16>();
}

TEST(to_float, reads_every_float16) {
  expect_every_number_read<float16>();
}

// The encoders of the tests are checked against the numbers of policies.md, L25, and the decoders.
TEST(fake_logits, round_to_the_nearest_bfloat16) {
  EXPECT_EQ(decoded(encoded<bfloat16>(0.9)), 0.8984375);
  EXPECT_EQ(decoded(encoded<bfloat16>(0.95)), 0.94921875);
  EXPECT_EQ(decoded(encoded<bfloat16>(0.85)), 0.8515625);
  EXPECT_EQ(decoded(encoded<bfloat16>(0.8)), 0.80078125);
  EXPECT_EQ(decoded(encoded<bfloat16>(0.75)), 0.75);
}

TEST(fake_logits, hold_what_is_representable_as_it_is) {
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const bfloat16 b{static_cast<std::uint16_t>(bits)};
    const float16 h{static_cast<std::uint16_t>(bits)};
    if (!std::isnan(decoded(b))) {
      ASSERT_EQ(encoded<bfloat16>(decoded(b)).bits, bits);
    }
    if (!std::isnan(decoded(h))) {
      ASSERT_EQ(encoded<float16>(decoded(h)).bits, bits);
    }
  }
}

}  // namespace
}  // namespace unmask::testing::math_test
