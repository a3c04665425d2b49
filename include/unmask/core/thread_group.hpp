// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/types.hpp>

#include <concepts>
#include <cstdint>

namespace UNMASK_NAMESPACE {

/// A thread group: the threads that compute one sequence's step, one on the host, a thread block on
/// a device.
///
/// Lanes 0 .. lanes() - 1; sync() is a barrier that every lane reaches.
template <class T>
concept thread_group = requires(const T& t) {
  { t.lane() } -> std::same_as<index_t>;
  { t.lanes() } -> std::same_as<index_t>;
  { t.sync() } -> std::same_as<void>;
};

/// Sum over the lanes before the calling one, and over all.
template <class N>
struct lane_sum {
  N before = 0;
  N all = 0;
};

/// Number of lanes with a true argument: those before the calling lane, and all.
using lane_count = lane_sum<index_t>;

/// A thread group whose lanes can exchange data, so that all of them write lists in order.
///
/// count(yes) counts the lanes with a true argument, exclusive_sum(x) adds the lanes' whole
/// numbers, any(bits) is the bitwise or over all lanes. Every lane calls them; all are barriers.
template <class T>
concept deciding_group = thread_group<T> && requires(const T& t, std::uint64_t bits) {
  { t.count(true) } -> std::same_as<lane_count>;
  { t.exclusive_sum(bits) } -> std::same_as<lane_sum<std::uint64_t>>;
  { t.any(bits) } -> std::same_as<std::uint64_t>;
};

/// A thread group of one lane, which is a warp as well: serial.
struct serial {
  [[nodiscard]] UNMASK_HD constexpr index_t lane() const { return 0; }
  [[nodiscard]] UNMASK_HD constexpr index_t lanes() const { return 1; }
  [[nodiscard]] UNMASK_HD constexpr index_t warp() const { return 0; }
  [[nodiscard]] UNMASK_HD constexpr index_t warps() const { return 1; }
  [[nodiscard]] UNMASK_HD constexpr index_t warp_lane() const { return 0; }
  [[nodiscard]] UNMASK_HD constexpr std::uint32_t ballot(bool x) const { return x ? 1 : 0; }
  [[nodiscard]] UNMASK_HD constexpr std::uint32_t shuffle(std::uint32_t x, index_t) const {
    return x;
  }
  [[nodiscard]] UNMASK_HD constexpr std::uint32_t shuffle_xor(std::uint32_t x, index_t) const {
    return x;
  }
  UNMASK_HD constexpr void sync() const {}
  [[nodiscard]] UNMASK_HD constexpr lane_count count(bool yes) const { return {0, yes ? 1 : 0}; }
  template <class N>
  [[nodiscard]] UNMASK_HD constexpr lane_sum<N> exclusive_sum(N x) const {
    return {0, x};
  }
  [[nodiscard]] UNMASK_HD constexpr std::uint64_t any(std::uint64_t bits) const { return bits; }
};
static_assert(deciding_group<serial>);

/// Calls body(i, is_there) for i = 0 ... count - 1 distributed over the lanes, in rounds in which
/// all lanes take part, so that `body` may call count() and any(); is_there is false in a lane
/// without an i.
UNMASK_HD void for_each_in_rounds(const deciding_group auto& t, index_t count, const auto& body) {
  for (index_t first = 0; first < count; first += t.lanes()) {
    body(first + t.lane(), first + t.lane() < count);
  }
}

/// for_each_in_rounds() until body returns false, in every lane.
UNMASK_HD void while_in_rounds(const deciding_group auto& t, index_t count, const auto& body) {
  for (index_t first = 0; first < count; first += t.lanes()) {
    if (!body(first + t.lane(), first + t.lane() < count)) {
      return;
    }
  }
}

/// Calls use(i) for the lowest i = 0 ... count - 1 with is(i), in the lane that has it. Returns
/// false, in every lane, if there is none.
UNMASK_HD bool
with_first(const deciding_group auto& t, index_t count, const auto& is, const auto& use) {
  bool any = false;
  while_in_rounds(t, count, [&](index_t i, bool is_there) {
    const bool fits = is_there && is(i);
    const lane_count found = t.count(fits);
    if (fits && found.before == 0) {
      use(i);
    }
    any = found.all > 0;
    return !any;
  });
  return any;
}

}  // namespace unmask
