// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/thread_block.hpp>
#include <unmask/cuda/tuning.hpp>
#include <unmask/step/choose.hpp>

/// step::choose by a thread block: the same indices in the same order.
namespace UNMASK_NAMESPACE::device {

/// Shared memory of a block for counts: a number for each of its warps.
struct count_space {
  std::uint32_t warps[decide_threads / warp_threads];
};

/// The sum of x over all threads, in every thread. Called by a whole block.
[[nodiscard]] UNMASK_HD inline std::uint32_t
sum_of_block(const auto& b, std::uint32_t x, count_space& space) {
  for (index_t distance = warp_threads / 2; distance > 0; distance /= 2) {
    x += b.shuffle_xor(x, distance);
  }
  if (b.warp_lane() == 0) {
    space.warps[b.warp()] = x;
  }
  b.sync();
  std::uint32_t sum = 0;
  for (index_t w = 0; w < b.warps(); ++w) {
    sum += space.warps[w];
  }
  b.sync();
  return sum;
}

/// Writes the indices of all `always` keys, of the `wanted` lowest others and of every i for which
/// `also(i)`, ascending, and returns their number: see step::choose. Called by a whole block of
/// whole warps.
///
/// The highest selected key is found bit by bit, with a count of the keys for each bit: 32 reads of
/// any keys, and two for the list.
/// Cost: O(34 count / threads).
template <class Also = step::keys_alone>
[[nodiscard]] UNMASK_HD index_t choose(const auto& b,
                                       const std::uint32_t* keys,
                                       index_t count,
                                       index_t wanted,
                                       index_t* chosen,
                                       count_space& space,
                                       const Also& also = {}) {
  const auto count_if = [&](const auto& is_counted) {
    std::uint32_t own = 0;
    for (index_t i = b.lane(); i < count; i += b.lanes()) {
      own += is_counted(keys[i]) ? 1U : 0U;
    }
    return static_cast<index_t>(sum_of_block(b, own, space));
  };
  const index_t always = count_if([](std::uint32_t key) { return key == step::always_key; });
  const index_t never = count_if([](std::uint32_t key) { return key == step::never_key; });
  const index_t others = math::min(math::max(wanted, index_t{0}), count - always - never);
  // The highest selected key, and the number of its equals that are selected.
  index_t equals = always + others;
  std::uint32_t last = 0;
  for (std::uint32_t bit = 0x80000000U; bit > 0 && equals > 0; bit >>= 1U) {
    // Keys that agree with `last` above the bit, and have a 0 there.
    const std::uint32_t known = ~(bit - 1U);
    const index_t lower = count_if([&](std::uint32_t key) { return (key & known) == last; });
    if (lower < equals) {
      equals -= lower;
      last |= bit;
    }
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
