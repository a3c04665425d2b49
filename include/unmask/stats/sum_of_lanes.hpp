// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/types.hpp>

namespace UNMASK_NAMESPACE::canonical {

/// Adds a power of two of numbers by halving: i and i + N / 2, then N / 4, and so on down to 1. The
/// array holds the partial sums afterwards.
template <index_t N>
[[nodiscard]] UNMASK_HD float sum_of_lanes(float (&lane)[N]) {
  static_assert((N & (N - 1)) == 0, "halves are added");
  for (index_t half = N / 2; half > 0; half /= 2) {
    for (index_t i = 0; i < half; ++i) {
      lane[i] += lane[i + half];
    }
  }
  return lane[0];
}

}  // namespace unmask::canonical
