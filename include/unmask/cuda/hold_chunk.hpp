// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/held_list.hpp>
#include <unmask/cuda/stage_chunk.hpp>
#include <unmask/step/sort.hpp>

/// A held_list that a warp fills while it reads: the input of a truncation.
namespace UNMASK_NAMESPACE::device {

/// Shared memory of a warp's list: the inverted keys of the held columns, ascending, and after them
/// the keys of columns that may have to be held. Most columns of a row are rejected by a comparison
/// with the last held one.
struct warp_list {
  static constexpr index_t held = held_tokens::capacity;
  static constexpr index_t room = 2 * held + warp_threads;
  static_assert(held == 2 * warp_threads, "a thread has two keys of a list");

  std::uint64_t keys[room];
};

namespace detail {

// A bit for each index i of a thread's logits, set if is(i).
[[nodiscard]] UNMASK_HD std::uint64_t indices_where(const auto& is) {
  std::uint64_t bits = 0;
  unrolled<2 * lane_columns>([&](index_t i) {
    bits |= static_cast<std::uint64_t>(is(i) ? 1U : 0U) << static_cast<unsigned>(i);
  });
  return bits;
}

// Calls use(there, logit, column) in all threads for the columns whose bit is set in `wanted`, one
// of each thread at a time; `there` is false in a thread without further columns.
UNMASK_HD void
for_each_of(const auto& b, const chunk_logits& z, std::uint64_t wanted, const auto& use) {
  while (b.ballot(wanted != 0) != 0) {
    const bool there = wanted != 0;
    const index_t at = there ? math::lowest_bit(wanted) : 0;
    float logit = 0.0F;
    unrolled<2 * lane_columns>([&](index_t i) {  // registers have no index
      logit = i == at ? z[i] : logit;
    });
    wanted &= wanted - 1;
    use(there, logit, column_of(b, at));
  }
}

// Keys of a warp, two a thread: thread t has those at 2 t and 2 t + 1.
using pair_of_keys = std::uint64_t[2];

[[nodiscard]] UNMASK_HD inline std::uint64_t
key_of_other(const auto& b, std::uint64_t key, index_t distance) {
  const std::uint32_t low = b.shuffle_xor(static_cast<std::uint32_t>(key), distance);
  const std::uint32_t high = b.shuffle_xor(static_cast<std::uint32_t>(key >> 32U), distance);
  return (std::uint64_t{high} << 32U) | low;
}

// Sorts runs of `size` keys whose halves are sorted in opposite directions, a bitonic merge;
// `ascends` is that of the thread's run.
UNMASK_HD inline void merge_runs(const auto& b, pair_of_keys& keys, index_t size, bool ascends) {
  const index_t at = 2 * b.warp_lane();
#if defined(__CUDA_ARCH__)
#  pragma unroll 1
#endif
  for (index_t distance = size / 2; distance > 1; distance /= 2) {
    const bool keeps_lower = ((at & distance) == 0) == ascends;
    for (std::uint64_t& key : keys) {
      const std::uint64_t other = key_of_other(b, key, distance / 2);
      key = (key < other) == keeps_lower ? key : other;
    }
  }
  if ((keys[0] > keys[1]) == ascends) {
    const std::uint64_t first = keys[0];
    keys[0] = keys[1];
    keys[1] = first;
  }
}

}  // namespace detail

/// The held columns of a sorted list, by one thread.
UNMASK_HD inline void take_held(const warp_list& list, held_tokens& to) {
  to.clear();
  for (index_t i = 0; i < warp_list::held && list.keys[i] != step::no_key; ++i) {
    const ranked_token column = ranked(~list.keys[i]);
    to.push(column.logit, column.token);
  }
}

/// One thread's view of its warp's list. A whole warp calls each function at once.
template <class Block>
class warp_holder {
 public:
  /// Starts with an empty list.
  UNMASK_HD warp_holder(const Block& b, warp_list& list)
      : b_(b)
      , keys_(list.keys) {
    for (index_t i = b_.warp_lane(); i < warp_list::held; i += warp_threads) {
      keys_[i] = step::no_key;
    }
    b_.sync_warp();
  }

  /// Offers one column of each lane by its inverted rank_key; step::no_key is no column.
  UNMASK_HD void push(std::uint64_t key) {
    const bool joins = key < keys_[warp_list::held - 1];
    const std::uint32_t who = b_.ballot(joins);
    if (who == 0) {
      return;
    }
    if (joins) {
      const std::uint32_t below = (1U << static_cast<std::uint32_t>(b_.warp_lane())) - 1U;
      keys_[warp_list::held + waiting_ + count_bits(who & below)] = key;
    }
    waiting_ += count_bits(who);
    if (waiting_ >= warp_list::held) {
      take_waiting();
    }
  }

  /// Offers the columns of a chunk with the largest logit `best` and the first token `first`.
  UNMASK_HD void push_chunk(const chunk_logits& z, float best, token_id first) {
    const std::uint64_t last = keys_[warp_list::held - 1];
    float least = last == step::no_key ? -math::infinity() : ranked(~last).logit;
    if (!(best > -math::infinity()) || best < least) {
      return;
    }
    if (last == step::no_key) {
      // The threads have two columns each, together as many as the list, that are at least the
      // minimum of their second largest: no column below it will be held.
      float largest = -math::infinity();
      float second = -math::infinity();
      unrolled<2 * lane_columns>([&](index_t i) {
        second = z[i] > largest ? largest : larger(second, z[i]);
        largest = larger(largest, z[i]);
      });
      for (index_t distance = warp_threads / 2; distance > 0; distance /= 2) {
        second = -larger(-second, -b_.shuffle_xor(second, distance));
      }
      least = second;
    }
    const std::uint64_t wanted =
        detail::indices_where([&](index_t i) { return z[i] >= least && z[i] > -math::infinity(); });
    detail::for_each_of(b_, z, wanted, [&](bool there, float logit, index_t column) {
      push(there ? ~rank_key(logit, first + column) : step::no_key);
    });
  }

  /// Sorts the list.
  UNMASK_HD void sort() {
    if (waiting_ > 0) {
      take_waiting();
    }
  }

  /// Offers the columns of another list, which is sorted.
  UNMASK_HD void push_list(const std::uint64_t* others) {
    const index_t last = warp_list::held - 1 - 2 * b_.warp_lane();
    join({others[last], others[last - 1]});
  }

 private:
  // Takes the first of the columns that wait; their number is the length of the list.
  UNMASK_HD void take_waiting() {
    b_.sync_warp();
    const index_t at = 2 * b_.warp_lane();
    const auto waiting_at = [&](index_t i) {
      return i < waiting_ ? keys_[warp_list::held + i] : step::no_key;
    };
    detail::pair_of_keys first = {waiting_at(at), waiting_at(at + 1)};
    const std::uint64_t next = waiting_at(warp_list::held + b_.warp_lane());
    waiting_ = math::max(waiting_ - warp_list::held, index_t{0});
#if defined(__CUDA_ARCH__)
#  pragma unroll 1
#endif
    for (index_t size = 2; size <= warp_list::held; size *= 2) {
      detail::merge_runs(b_, first, size, size < warp_list::held && (at & size) == 0);
    }
    b_.sync_warp();
    keys_[warp_list::held + b_.warp_lane()] = next;
    join(first);
  }
  // Takes the first of as many columns as the list has, which descend over the threads.
  UNMASK_HD void join(const detail::pair_of_keys& others) {
    const index_t at = 2 * b_.warp_lane();
    detail::pair_of_keys first;
    for (index_t i = 0; i < 2; ++i) {
      first[i] = others[i] < keys_[at + i] ? others[i] : keys_[at + i];
    }
    detail::merge_runs(b_, first, warp_list::held, true);
    keys_[at] = first[0];
    keys_[at + 1] = first[1];
    b_.sync_warp();
  }

 private:
  const Block& b_;
  std::uint64_t* keys_;
  index_t waiting_ = 0;
};

}  // namespace unmask::device
