// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/math.hpp>
#include <unmask/step/team.hpp>

namespace UNMASK_NAMESPACE::step {

/// A key that sorts after every candidate.
inline constexpr std::uint64_t no_key = ~std::uint64_t{0};

/// Smallest power of two >= n, the size that sort() works on.
[[nodiscard]] UNMASK_HD constexpr index_t sort_size(index_t n) {
  index_t size = 1;
  while (size < n) {
    size *= 2;
  }
  return size;
}

/// The key of a candidate: ascending keys are descending scores, ties in ascending index. NaN
/// scores sort behind every number; -0 equals +0.
[[nodiscard]] UNMASK_HD inline std::uint64_t order_key(float score, index_t index) {
  const float clean = math::is_nan(score) ? -math::infinity() : score + 0.0F;
  const std::uint32_t bits = math::bits_of(clean);
  const std::uint32_t ascending = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return (std::uint64_t{~ascending} << 32U) | static_cast<std::uint32_t>(index);
}

/// The index that order_key put into a key.
[[nodiscard]] UNMASK_HD constexpr index_t key_index(std::uint64_t key) {
  return static_cast<index_t>(key & 0xffffffffU);
}

/// The score that order_key put into a key.
[[nodiscard]] UNMASK_HD inline float key_score(std::uint64_t key) {
  const std::uint32_t ascending = ~static_cast<std::uint32_t>(key >> 32U);
  return math::from_bits((ascending & 0x80000000U) != 0 ? ascending & 0x7fffffffU : ~ascending);
}

/// Sorts `size` distinct keys (a power of two) ascending with the whole team: a bitonic network, so
/// that every team size does the same exchanges. O(size log^2 size) exchanges.
UNMASK_HD void sort(const auto& t, std::uint64_t* keys, index_t size) {
  for (index_t run = 2; run <= size; run *= 2) {
    for (index_t stride = run / 2; stride > 0; stride /= 2) {
      t.sync();
      for (index_t pair = t.lane(); pair < size / 2; pair += t.lanes()) {
        const index_t low = pair / stride * 2 * stride + pair % stride;
        const index_t high = low + stride;
        const bool ascending = (low & run) == 0;
        const std::uint64_t a = keys[low];
        const std::uint64_t b = keys[high];
        if ((b < a) == ascending) {
          keys[low] = b;
          keys[high] = a;
        }
      }
    }
  }
  t.sync();
}

}  // namespace unmask::step
