// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/math.hpp>

namespace UNMASK_NAMESPACE::step {

/// Keys of importances: ascending keys are descending importances. +inf is always selected, -inf
/// never; NaN ranks first among the others, -0 equals +0.
inline constexpr std::uint32_t always_key = 0;
inline constexpr std::uint32_t never_key = 0xffffffffU;

[[nodiscard]] UNMASK_HD inline std::uint32_t importance_key(float importance) {
  if (math::is_nan(importance)) {
    return always_key + 1;
  }
  if (!math::is_finite(importance)) {
    return importance > 0.0F ? always_key : never_key;
  }
  const std::uint32_t bits = math::bits_of(importance + 0.0F);
  return (bits & 0x80000000U) != 0 ? bits : ~(bits | 0x80000000U);
}

/// Selects by keys only.
struct keys_alone {
  UNMASK_HD constexpr bool operator()(index_t) const { return false; }
};

/// Writes the indices of all `always` keys, of the `wanted` lowest others and of every i for which
/// `also(i)`, ascending, and returns their number. `never` keys are not selected by their key.
///
/// Range: any `wanted`; `chosen` has room for `count` indices.
/// Ties: the lower index.
/// Cost: O(count) for any keys, exact: a radix selection in four digits, then one pass. For one
/// lane.
template <class Also = keys_alone>
[[nodiscard]] UNMASK_HD index_t choose(const std::uint32_t* keys,
                                       index_t count,
                                       index_t wanted,
                                       index_t* chosen,
                                       const Also& also = {}) {
  index_t always = 0;
  index_t never = 0;
  for (index_t i = 0; i < count; ++i) {
    always += keys[i] == always_key ? 1 : 0;
    never += keys[i] == never_key ? 1 : 0;
  }
  const index_t others = math::min(math::max(wanted, index_t{0}), count - always - never);
  // The highest selected key, and the number of its equals that are selected.
  index_t equals = always + others;
  std::uint32_t last = 0;
  std::uint32_t known = 0;
  for (int shift = 24; shift >= 0 && equals > 0; shift -= 8) {
    index_t histogram[256] = {};
    for (index_t i = 0; i < count; ++i) {
      if ((keys[i] & known) == last) {
        ++histogram[(keys[i] >> shift) & 0xffU];
      }
    }
    std::uint32_t digit = 0;
    while (histogram[digit] < equals) {
      equals -= histogram[digit++];
    }
    last |= digit << shift;
    known |= 0xffU << shift;
  }
  index_t size = 0;
  for (index_t i = 0; i < count; ++i) {
    const bool equal = keys[i] == last && equals > 0;
    equals -= equal ? 1 : 0;
    if (equal || keys[i] < last || also(i)) {
      chosen[size++] = i;
    }
  }
  return size;
}

}  // namespace unmask::step
