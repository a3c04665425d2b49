// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// A model that needs no weights: its logits are a hash of the tokens around a position, so that
/// every decision feeds back into the next forward pass. And the three element types, encoded and
/// decoded without the library under test.

#include <unmask/core/logits.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "support/dice.hpp"

namespace unmask::testing {

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// The nearest number that an element type holds, ties to even. Infinities and NaN survive.
template <element T>
[[nodiscard]] T encoded(double x);

template <>
[[nodiscard]] inline float encoded<float>(double x) {
  return static_cast<float>(x);
}

template <>
[[nodiscard]] inline bfloat16 encoded<bfloat16>(double x) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(x));
  if (std::isnan(x)) {
    return {static_cast<std::uint16_t>(0x7fc0U)};
  }
  const std::uint32_t up = std::isinf(x) ? 0 : 0x7fffU + ((bits >> 16U) & 1U);
  return {static_cast<std::uint16_t>((bits + up) >> 16U)};
}

template <>
[[nodiscard]] inline float16 encoded<float16>(double x) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(x) ? 0x8000U : 0U);
  const double size = std::fabs(x);
  if (std::isnan(x)) {
    return {static_cast<std::uint16_t>(0x7e00U)};
  }
  if (size >= 65520.0) {
    return {static_cast<std::uint16_t>(sign | 0x7c00U)};
  }
  if (size < 0x1p-25) {
    return {sign};
  }
  const int exponent = std::max(std::ilogb(size), -14);
  // The mantissa with its leading bit; a carry runs on into the exponent by itself.
  const auto mantissa = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  const auto biased = static_cast<std::uint32_t>(exponent + 14) << 10U;
  return {static_cast<std::uint16_t>(sign | (biased + mantissa))};
}

[[nodiscard]] inline double decoded(float x) {
  return x;
}
[[nodiscard]] inline double decoded(bfloat16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16U);
}
[[nodiscard]] inline double decoded(float16 x) {
  const int exponent = (x.bits >> 10U) & 31;
  const int mantissa = x.bits & 1023;
  const double sign = (x.bits & 0x8000U) != 0 ? -1.0 : 1.0;
  if (exponent == 31) {
    return mantissa == 0 ? sign * infinity : not_a_number;
  }
  return exponent == 0 ? sign * std::ldexp(mantissa, -24)
                       : sign * std::ldexp(1024 + mantissa, exponent - 25);
}

/// How unfriendly the rows of a fake model are.
struct mischief {
  /// Share of rows that repeat another row of the same sequence bit for bit: ties between
  /// positions.
  double repeated_rows = 0.1;
  /// Share of rows in which the best logit stands twice: ties between tokens.
  double repeated_best = 0.1;
  /// Share of columns that are -inf.
  double absent_columns = 0.02;
  /// Share of rows that hold a NaN, that are -inf everywhere, that hold a +inf.
  double nan_rows = 0.0;
  double empty_rows = 0.0;
  double infinite_rows = 0.0;
};

/// The fake model. Row r depends on the tokens within `radius` of r.
struct fake_model {
  std::uint64_t seed = 0;
  index_t vocab = 0;
  /// Largest advantage of the token that a row prefers, in nats.
  double sharpness = 9.0;
  index_t radius = 2;
  mischief trouble = {};

  /// Row r for the tokens x, each number rounded to what T holds.
  template <element T>
  void row(std::span<const token_id> x, index_t r, std::span<T> out) const {
    const auto size = static_cast<index_t>(x.size());
    std::uint64_t key = mixed(seed, static_cast<std::uint64_t>(r));
    if (chance(mixed(key, 1), trouble.repeated_rows)) {
      key = mixed(seed, 2);  // one row that many positions share, whatever stands around them
    } else {
      for (index_t p = std::max(r - radius, 0); p <= std::min(r + radius, size - 1); ++p) {
        key = mixed(key, static_cast<std::uint64_t>(x[static_cast<std::size_t>(p)]));
      }
    }
    const auto columns = static_cast<std::uint64_t>(vocab);
    const std::uint64_t favourite = mixed(key, 3) % columns;
    const std::uint64_t rival = mixed(key, 4) % columns;
    const double advantage = sharpness * unit(mixed(key, 5));
    const double share = unit(mixed(key, 6));
    for (std::uint64_t v = 0; v < columns; ++v) {
      const std::uint64_t h = mixed(key + v * 0x2545F4914F6CDD1DU);
      double z = 3.0 * unit(h) - 1.5;
      z += v == favourite ? advantage : (v == rival ? share * advantage : 0.0);
      const bool absent = v != favourite && chance(mixed(h), trouble.absent_columns);
      out[v] = encoded<T>(absent ? -infinity : z);
    }
    if (chance(mixed(key, 7), trouble.repeated_best)) {
      out[rival] = out[favourite];
    }
    if (chance(mixed(key, 8), trouble.nan_rows)) {
      out[mixed(key, 9) % columns] = encoded<T>(not_a_number);
    }
    if (chance(mixed(key, 10), trouble.infinite_rows)) {
      out[mixed(key, 11) % columns] = encoded<T>(infinity);
    }
    if (chance(mixed(key, 12), trouble.empty_rows)) {
      std::fill(out.begin(), out.end(), encoded<T>(-infinity));
    }
  }

 private:
  [[nodiscard]] static bool chance(std::uint64_t hash, double probability) {
    return unit(hash) < probability;
  }
};

}  // namespace unmask::testing
