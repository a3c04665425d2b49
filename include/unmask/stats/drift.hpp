// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/layer.hpp>
#include <unmask/stats/sum_of_lanes.hpp>

/// The fixed order in which a hidden vector is compared with its stored predecessor, on every
/// backend.
///
/// Column j belongs to lane j mod 32; a lane adds its columns in ascending order with fused
/// multiply-adds, and the lanes are added by halving (i and i + 16, then 8, 4, 2, 1). 32 lanes are
/// a warp, two AVX-512 registers or four AVX2 registers. Neither the SIMD width nor the number of
/// threads occurs in that order.
namespace UNMASK_NAMESPACE::canonical {

inline constexpr index_t drift_lanes = 32;

[[nodiscard]] UNMASK_HD inline float absolute(float x) {
  return math::from_bits(math::bits_of(x) & 0x7fffffffU);
}

/// Terms of the drift of `now` from `before`, column by column: the definition that the fast
/// kernels reproduce bit by bit. A null `before` counts as zeros.
template <drift_terms Terms, element T>
[[nodiscard]] UNMASK_HD drift_sums drift_of(const T* now, const T* before, index_t columns) {
  float distance_1[drift_lanes] = {};
  float distance_2[drift_lanes] = {};
  float product[drift_lanes] = {};
  float square[drift_lanes] = {};
  float previous[drift_lanes] = {};
  for (index_t j = 0; j < columns; ++j) {
    const index_t lane = j % drift_lanes;
    const float h = math::to_float(now[j]);
    const float g = before == nullptr ? 0.0F : math::to_float(before[j]);
    const float apart = h - g;
    if constexpr (contains(Terms, drift_terms::distance_1)) {
      distance_1[lane] += absolute(apart);
    }
    if constexpr (contains(Terms, drift_terms::distance_2)) {
      distance_2[lane] = math::fma(apart, apart, distance_2[lane]);
    }
    if constexpr (contains(Terms, drift_terms::product)) {
      product[lane] = math::fma(h, g, product[lane]);
    }
    if constexpr (contains(Terms, drift_terms::square)) {
      square[lane] = math::fma(h, h, square[lane]);
    }
    if constexpr (contains(Terms, drift_terms::previous)) {
      previous[lane] = math::fma(g, g, previous[lane]);
    }
  }
  return {sum_of_lanes(distance_1),
          sum_of_lanes(distance_2),
          sum_of_lanes(product),
          sum_of_lanes(square),
          sum_of_lanes(previous),
          columns};
}

}  // namespace unmask::canonical
