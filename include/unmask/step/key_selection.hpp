// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/core/logits.hpp>
#include <unmask/step/choose.hpp>

namespace UNMASK_NAMESPACE::step {

/// The keys of a layer outside a block, from which a policy with eviction selects some: the scores
/// of all positions outside the block. One definition for every backend.
template <element T>
struct key_selection {
  const T* scores = nullptr;
  index_t positions = 0;
  range block;
  double keep = 1.0;
  index_t pool = 1;

  /// Throws std::invalid_argument if a selector made for `length` positions cannot select from
  /// these. Host only.
  void check(index_t length) const {
    check_argument(positions >= 0 && positions <= length,
                   "scores",
                   positions,
                   "at most as many as the selector's length, ",
                   length);
    check_argument(block.first >= 0 && block.first <= block.last,
                   "first position of the block",
                   block.first,
                   "in [0, the last = ",
                   block.last,
                   "]");
    check_argument(block.last <= positions,
                   "last position of the block",
                   block.last,
                   "at most the number of scores, ",
                   positions);
    check_argument(keep >= 0.0 && keep <= 1.0, "keep", keep, "in [0, 1]");
    check_argument(pool >= 1 && pool % 2 == 1, "pool", pool, "odd and at least 1");
  }

  /// Numbers of keys to select from and to keep.
  [[nodiscard]] UNMASK_HD index_t size() const { return positions - block.size(); }
  [[nodiscard]] UNMASK_HD index_t kept() const { return static_cast<index_t>(keep * size()); }

  /// Position of the i-th key.
  [[nodiscard]] UNMASK_HD index_t position(index_t i) const {
    return i < block.first ? i : i + block.size();
  }

  /// The key of choose() for the i-th: the key of the highest score within pool / 2 of it. NaN is
  /// the highest; infinite scores are ordinary scores here. Cost: O(pool).
  [[nodiscard]] UNMASK_HD std::uint32_t pooled_key(index_t i) const {
    const index_t last = math::min(i + pool / 2, size() - 1);
    std::uint32_t lowest = never_key;
    for (index_t j = math::max(i - pool / 2, index_t{0}); j <= last; ++j) {
      float score = math::to_float(scores[position(j)]);
      if (!math::is_finite(score) && !math::is_nan(score)) {
        score = math::from_bits((math::bits_of(score) & 0x80000000U) | 0x7f7fffffU);
      }
      const std::uint32_t key = importance_key(score);
      lowest = key < lowest ? key : lowest;
    }
    return lowest;
  }
};

}  // namespace unmask::step
