// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/thread_block.hpp>
#include <unmask/step/choose.hpp>

/// step::choose by a thread block: the same indices in the same order.
namespace UNMASK_NAMESPACE::device {

/// Shared memory of a block that selects: the number of keys by one digit.
struct digit_counts {
  static constexpr index_t size = 256;

  std::uint32_t keys[size];
  /// The digit of the last selected key, and the number of keys with a lower one.
  std::uint32_t digit;
  std::uint32_t lower;
};

namespace detail {

// Writes the digit of the `wanted`-th key, and the number of keys with a lower one.
UNMASK_HD inline void find_digit(const auto& b, std::uint32_t wanted, digit_counts& space) {
  std::uint32_t lower = 0;
  for_each_in_rounds(b, digit_counts::size, [&](index_t digit, bool is_there) {
    const std::uint32_t own = is_there ? space.keys[digit] : 0;
    const lane_sum<std::uint32_t> sum = b.exclusive_sum(own);
    const std::uint32_t before = lower + sum.before;
    if (before < wanted && wanted <= before + own) {
      space.digit = static_cast<std::uint32_t>(digit);
      space.lower = before;
    }
    lower += sum.all;
  });
  b.sync();
}

}  // namespace detail

/// Writes the indices of all `always` keys, of the `wanted` lowest others and of every i for which
/// `also(i)`, ascending, and returns their number: see step::choose. Called by a whole block of
/// whole warps; thread t reads the keys t, t + threads, ..., and evaluates also() for those.
///
/// The highest selected key is found digit by digit, with a histogram of each: five reads of any
/// keys, and one for the list.
/// Cost: O(6 count / threads).
template <class Also = step::keys_alone>
[[nodiscard]] UNMASK_HD index_t choose(const auto& b,
                                       const std::uint32_t* keys,
                                       index_t count,
                                       index_t wanted,
                                       index_t* chosen,
                                       digit_counts& space,
                                       const Also& also = {}) {
  std::uint64_t own = 0;  // `always` keys in the lower half, `never` keys in the upper one
  for (index_t i = b.lane(); i < count; i += b.lanes()) {
    own += keys[i] == step::always_key ? 1U : 0U;
    own += keys[i] == step::never_key ? std::uint64_t{1} << 32U : 0U;
  }
  const std::uint64_t special = b.exclusive_sum(own).all;
  const auto always = static_cast<index_t>(special & 0xffffffffU);
  const auto never = static_cast<index_t>(special >> 32U);
  const index_t others = math::min(math::max(wanted, index_t{0}), count - always - never);
  // The highest selected key, and the number of its equals that are selected.
  index_t equals = always + others;
  std::uint32_t last = 0;
  std::uint32_t known = 0;
  for (unsigned shift = 32; shift > 0 && equals > 0;) {
    shift -= 8;
    for (index_t i = b.lane(); i < digit_counts::size; i += b.lanes()) {
      space.keys[i] = 0;
    }
    b.sync();
    for (index_t i = b.lane(); i < count; i += b.lanes()) {
      if ((keys[i] & known) == last) {
        b.add(space.keys + ((keys[i] >> shift) & 0xffU), 1U);
      }
    }
    b.sync();
    detail::find_digit(b, static_cast<std::uint32_t>(equals), space);
    equals -= static_cast<index_t>(space.lower);
    last |= space.digit << shift;
    known |= 0xffU << shift;
  }
  index_t size = 0;
  index_t equal_so_far = 0;
  for_each_in_rounds(b, count, [&](index_t i, bool is_there) {
    const bool is_equal = is_there && keys[i] == last;
    const lane_count same = b.count(is_equal);
    const bool has_place = is_equal && equal_so_far + same.before < equals;
    const bool is_chosen = is_there && (keys[i] < last || has_place || also(i));
    const lane_count taken = b.count(is_chosen);
    if (is_chosen) {
      chosen[size + taken.before] = i;
    }
    equal_so_far += same.all;
    size += taken.all;
  });
  return size;
}

}  // namespace unmask::device
