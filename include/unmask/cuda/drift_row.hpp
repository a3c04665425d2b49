// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/arithmetic.hpp>
#include <unmask/cuda/thread_block.hpp>
#include <unmask/stats/drift.hpp>

#include <type_traits>

/// Comparison of a hidden vector with its predecessor by one warp: thread t is lane t of the
/// canonical order, so that no column changes threads.
namespace UNMASK_NAMESPACE::device {

static_assert(canonical::drift_lanes == warp_threads);

/// Columns of each vector that a thread loads before it uses the first: 2,048 bytes of float or
/// 1,024 of a 16-bit type in flight for each warp and vector. Widths of models are multiples of
/// 512.
inline constexpr index_t drift_batch = 16;

namespace detail {

// Adds the numbers of a warp's threads, as canonical::sum_of_drift_lanes.
template <bool Wanted>
[[nodiscard]] UNMASK_HD float sum_of_warp(const auto& b, float x) {
  if constexpr (Wanted) {
    for (index_t distance = warp_threads / 2; distance > 0; distance /= 2) {
      x += b.shuffle_xor(x, distance);
    }
  }
  return x;
}

template <drift_terms Terms>
UNMASK_HD void add_drift(float h, float g, drift_sums& s) {
  const float apart = math::difference(h, g);
  if constexpr (contains(Terms, drift_terms::distance_1)) {
    s.distance_1 += canonical::absolute(apart);
  }
  if constexpr (contains(Terms, drift_terms::distance_2)) {
    s.distance_2 = math::fma(apart, apart, s.distance_2);
  }
  if constexpr (contains(Terms, drift_terms::product)) {
    s.product = math::fma(h, g, s.product);
  }
  if constexpr (contains(Terms, drift_terms::square)) {
    s.square = math::fma(h, h, s.square);
  }
  if constexpr (contains(Terms, drift_terms::previous)) {
    s.previous = math::fma(g, g, s.previous);
  }
}

}  // namespace detail

/// Terms of the drift of `now` from `before`, in one read of both, with the bits of
/// canonical::drift_of as long as no sum is NaN; a null `before` counts as zeros. With `Stores`,
/// `now` then replaces `before`.
///
/// Called by a whole warp; every thread gets the sums. Any alignment: a warp's loads and stores are
/// adjacent, 4 bytes a thread for float, 2 for a 16-bit type.
template <drift_terms Terms, bool Stores, element T>
[[nodiscard]] UNMASK_HD drift_sums drift_row(const auto& b,
                                             const T* now,
                                             std::conditional_t<Stores, T, const T>* before,
                                             index_t columns) {
  drift_sums s;
  const auto take = [&](T h, T g, index_t column) {
    if constexpr (Terms != drift_terms::none) {
      detail::add_drift<Terms>(
          device::to_float(h), before == nullptr ? 0.0F : device::to_float(g), s);
    }
    if constexpr (Stores) {
      if (before != nullptr) {
        before[column] = h;
      }
    }
  };
  constexpr index_t stride = drift_batch * warp_threads;
  constexpr bool reads_before = Terms != drift_terms::none;
  index_t column = b.warp_lane();
  for (; column + stride - warp_threads < columns; column += stride) {
    T h[drift_batch];
    T g[drift_batch] = {};
    unrolled<drift_batch>([&](index_t k) { h[k] = now[column + k * warp_threads]; });
    if (reads_before && before != nullptr) {
      unrolled<drift_batch>([&](index_t k) { g[k] = before[column + k * warp_threads]; });
    }
    unrolled<drift_batch>([&](index_t k) { take(h[k], g[k], column + k * warp_threads); });
  }
  for (; column < columns; column += warp_threads) {
    take(now[column], reads_before && before != nullptr ? before[column] : T{}, column);
  }
  return {detail::sum_of_warp<contains(Terms, drift_terms::distance_1)>(b, s.distance_1),
          detail::sum_of_warp<contains(Terms, drift_terms::distance_2)>(b, s.distance_2),
          detail::sum_of_warp<contains(Terms, drift_terms::product)>(b, s.product),
          detail::sum_of_warp<contains(Terms, drift_terms::square)>(b, s.square),
          detail::sum_of_warp<contains(Terms, drift_terms::previous)>(b, s.previous),
          columns};
}

}  // namespace unmask::device
