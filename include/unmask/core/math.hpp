// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/types.hpp>

/// Deterministic arithmetic: the same bits on every backend.
///
/// Rules: every product that feeds a sum is part of one explicit fused multiply-add or is a
/// product(), so that no compiler has a choice; divisions are correctly rounded; the exponential
/// and the logarithm are the polynomials below. A build with -ffast-math is not deterministic; one
/// with -use_fast_math is.
namespace UNMASK_NAMESPACE::math {

inline constexpr float log2_e = 0x1.715476p+0F;  ///< Logarithm of e to base 2.
inline constexpr float ln_2 = 0x1.62e430p-1F;    ///< Natural logarithm of 2.

/// Adding it to |x| < 2^22 leaves rint(x) in the low mantissa bits (1.5 * 2^23).
inline constexpr float round_magic = 12582912.0F;

/// Arguments of exp() below this are clamped: e^-86 = 4.5e-38 is the last one whose polynomial
/// result stays a normal number, and nothing that small survives an addition to a sum >= 1.
inline constexpr float exp_floor = -86.0F;

/// Arguments of exp2() below this are clamped, for the reason above.
inline constexpr float exp2_floor = -124.0F;

/// 2^f = 1 + f (c1 + f (c2 + ...)) for |f| <= 1/2, minimax in relative error (9.2e-8). The constant
/// term is exactly 1, so that exp(0) == 1 and the best token weighs exactly one.
inline constexpr float exp2_c1 = 0x1.62e42ap-1F;
inline constexpr float exp2_c2 = 0x1.ebf9bcp-3F;   ///< Coefficient of f^2.
inline constexpr float exp2_c3 = 0x1.c6b752p-5F;   ///< Coefficient of f^3.
inline constexpr float exp2_c4 = 0x1.3cea88p-7F;   ///< Coefficient of f^4.
inline constexpr float exp2_c5 = 0x1.5bba14p-10F;  ///< Coefficient of f^5.

/// The bits of a float.
[[nodiscard]] UNMASK_HD inline std::uint32_t bits_of(float x) {
  return __builtin_bit_cast(std::uint32_t, x);
}
/// The float of some bits.
[[nodiscard]] UNMASK_HD inline float from_bits(std::uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

/// Positive infinity.
[[nodiscard]] UNMASK_HD inline float infinity() {
  return from_bits(0x7f800000U);
}

/// True for every number but NaN and the infinities; a bit test, safe under -ffast-math.
[[nodiscard]] UNMASK_HD inline bool is_finite(float x) {
  return (bits_of(x) & 0x7f800000U) != 0x7f800000U;
}
/// True for NaN; a bit test, safe under -ffast-math.
[[nodiscard]] UNMASK_HD inline bool is_nan(float x) {
  return (bits_of(x) & 0x7fffffffU) > 0x7f800000U;
}

/// Returns a b + c, rounded once.
[[nodiscard]] UNMASK_HD inline float fma(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

/// Returns a b, never fused with a sum that follows, and never -0.
[[nodiscard]] UNMASK_HD inline float product(float a, float b) {
#if defined(__CUDA_ARCH__)
  return fma(a, b, 0.0F);
#else
  // Fused or not, the bits are the same; and fma() is not called on processors that may lack it.
  return a * b + 0.0F;
#endif
}

/// Returns a - b. On a device it is never fused with a product that computed a or b, as nvcc would
/// do by default, so that the bits do not depend on inlining.
[[nodiscard]] UNMASK_HD inline float difference(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fsub_rn(a, b);
#else
  return a - b;
#endif
}

/// Returns a / b, correctly rounded.
[[nodiscard]] UNMASK_HD inline float divide(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}

/// Square root, correctly rounded.
[[nodiscard]] UNMASK_HD inline float square_root(float x) {
#if defined(__CUDA_ARCH__)
  return __fsqrt_rn(x);
#else
  return __builtin_sqrtf(x);
#endif
}

/// The larger number; the first one if they are equal or one is NaN.
[[nodiscard]] UNMASK_HD constexpr float max(float a, float b) {
  return a < b ? b : a;
}
/// The smaller number; the first one if they are equal or one is NaN.
[[nodiscard]] UNMASK_HD constexpr float min(float a, float b) {
  return b < a ? b : a;
}
/// The larger number.
[[nodiscard]] UNMASK_HD constexpr index_t max(index_t a, index_t b) {
  return a < b ? b : a;
}
/// The smaller number.
[[nodiscard]] UNMASK_HD constexpr index_t min(index_t a, index_t b) {
  return b < a ? b : a;
}
/// The number of [low, high] next to x; NaN stays NaN.
[[nodiscard]] UNMASK_HD constexpr float clamp(float x, float low, float high) {
  return x < low ? low : (high < x ? high : x);
}

/// e^x for x <= 0, relative error below 1.7e-7 + 1.4e-8 |x|, clamped at exp_floor. NaN stays NaN.
[[nodiscard]] UNMASK_HD inline float exp_nonpositive(float x) {
  const float d = x < exp_floor ? exp_floor : x;  // a NaN fails the comparison and passes through
  const float magic = fma(d, log2_e, round_magic);
  const float f = fma(d, log2_e, -(magic - round_magic));
  float p = fma(f, exp2_c5, exp2_c4);
  p = fma(p, f, exp2_c3);
  p = fma(p, f, exp2_c2);
  p = fma(p, f, exp2_c1);
  p = fma(p, f, 1.0F);
  return is_nan(d) ? d : from_bits(bits_of(p) + (bits_of(magic) << 23U));
}

/// 2^t for exp2_floor <= t < 127, relative error below 1.7e-7. NaN stays NaN. 2^0 is exactly 1.
[[nodiscard]] UNMASK_HD inline float exp2(float t) {
#if defined(__FAST_MATH__)  // which takes (t + c) - c for t
  const float n = __builtin_rintf(t);
  const float magic = n + round_magic;
#else
  const float magic = t + round_magic;
  const float n = magic - round_magic;
#endif
  const float f = t - n;
  float p = fma(f, exp2_c5, exp2_c4);
  p = fma(p, f, exp2_c3);
  p = fma(p, f, exp2_c2);
  p = fma(p, f, exp2_c1);
  p = fma(p, f, 1.0F);
  return is_nan(t) ? t : from_bits(bits_of(p) + (bits_of(magic) << 23U));
}

/// ln x for normal x > 0, error below 2 ulp.
[[nodiscard]] UNMASK_HD inline float log(float x) {
  // x = 2^e m with m in [sqrt(1/2), sqrt(2)); ln m = 2 atanh(r) with r = (m - 1) / (m + 1).
  const std::int32_t shifted = static_cast<std::int32_t>(bits_of(x) - 0x3f3504f3U);
  const std::int32_t e = shifted >> 23;
  const float m = from_bits(bits_of(x) - (static_cast<std::uint32_t>(e) << 23U));
  const float r = divide(m - 1.0F, m + 1.0F);
  const float r2 = r * r;
  float p = fma(r2, 0.14791029F, 0.19994360F);
  p = fma(p, r2, 0.33333343F);
  const float twice = r + r;
  return fma(static_cast<float>(e), ln_2, fma(twice, p * r2, twice));
}

/// ln(1 + x) for x >= 0, accurate also where 1 + x rounds to 1. NaN stays NaN, +inf stays +inf.
[[nodiscard]] UNMASK_HD inline float log1p(float x) {
  if (!is_finite(x)) {
    return x;
  }
  const float u = 1.0F + x;
  const float lost = x > 1.0F ? 1.0F - (u - x) : x - (u - 1.0F);
  return log(u) + divide(lost, u);
}

/// p^exponent for p in [0, 1] and exponent >= 0; 0^0 = 1.
[[nodiscard]] UNMASK_HD inline float pow_of_probability(float p, float exponent) {
  if (exponent == 0.0F || p >= 1.0F) {
    return 1.0F;
  }
  return p < 1.2e-38F ? 0.0F : exp_nonpositive(product(exponent, log(p)));
}

/// The number itself.
[[nodiscard]] UNMASK_HD inline float to_float(float x) {
  return x;
}
/// A bfloat16 as a float; exact.
[[nodiscard]] UNMASK_HD inline float to_float(bfloat16 x) {
  return from_bits(static_cast<std::uint32_t>(x.bits) << 16U);
}
/// A float16 as a float; exact.
[[nodiscard]] UNMASK_HD inline float to_float(float16 x) {
  const std::uint32_t sign = (x.bits & 0x8000U) << 16U;
  const std::uint32_t rest = x.bits & 0x7fffU;
  if (rest >= 0x7c00U) {  // infinity or NaN
    return from_bits(sign | 0x7f800000U | ((rest & 0x3ffU) << 13U));
  }
  if (rest >= 0x0400U) {  // normal: rebias the exponent from 15 to 127
    return from_bits(sign | ((rest + (112U << 10U)) << 13U));
  }
  const float subnormal = static_cast<float>(rest) * 0x1p-24F;  // exact
  return from_bits(sign | bits_of(subnormal));
}

/// The lowest bit that is set; at least one must be.
[[nodiscard]] UNMASK_HD inline index_t lowest_bit(std::uint64_t x) {
#if defined(__CUDA_ARCH__)
  return __ffsll(static_cast<long long>(x)) - 1;
#else
  return __builtin_ctzll(x);
#endif
}

}  // namespace unmask::math
