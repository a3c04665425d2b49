// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/types.hpp>

#include <concepts>
#include <cstdint>

namespace UNMASK_NAMESPACE {

/// The threads that run one sequence's step together: one on the host, a thread block on a device.
///
/// Lane 0 .. lanes() - 1; sync() is a barrier that every lane reaches.
template <class T>
concept team = requires(const T& t) {
  { t.lane() } -> std::same_as<index_t>;
  { t.lanes() } -> std::same_as<index_t>;
  { t.sync() } -> std::same_as<void>;
};

/// How many lanes said yes: those before the asking one, and all.
struct lane_count {
  index_t before = 0;
  index_t all = 0;
};

/// A team that decides: its lanes can ask each other, so that lists are written by all of them, in
/// order.
///
/// count(yes) counts the lanes that say yes, any(bits) is the bitwise or over all lanes. Every lane
/// calls; both are barriers.
template <class T>
concept deciding_team = team<T> && requires(const T& t, std::uint64_t bits) {
  { t.count(true) } -> std::same_as<lane_count>;
  { t.any(bits) } -> std::same_as<std::uint64_t>;
};

/// A team of one.
struct solo {
  [[nodiscard]] UNMASK_HD constexpr index_t lane() const { return 0; }
  [[nodiscard]] UNMASK_HD constexpr index_t lanes() const { return 1; }
  UNMASK_HD constexpr void sync() const {}
  [[nodiscard]] UNMASK_HD constexpr lane_count count(bool yes) const { return {0, yes ? 1 : 0}; }
  [[nodiscard]] UNMASK_HD constexpr std::uint64_t any(std::uint64_t bits) const { return bits; }
};
static_assert(deciding_team<solo>);

/// Calls body(i, is_there) for i = 0 ... count - 1 spread over the lanes, in rounds that all lanes
/// take part in, so that `body` may ask the team; is_there is false in a lane that has no i left.
UNMASK_HD void for_each_in_rounds(const deciding_team auto& t, index_t count, const auto& body) {
  for (index_t first = 0; first < count; first += t.lanes()) {
    body(first + t.lane(), first + t.lane() < count);
  }
}

/// The same until body returns false, in every lane.
UNMASK_HD void while_in_rounds(const deciding_team auto& t, index_t count, const auto& body) {
  for (index_t first = 0; first < count; first += t.lanes()) {
    if (!body(first + t.lane(), first + t.lane() < count)) {
      return;
    }
  }
}

/// Calls use(i) for the lowest of i = 0 ... count - 1 that is(i), in the lane that has it. False,
/// in every lane, if there is none.
UNMASK_HD bool
with_first(const deciding_team auto& t, index_t count, const auto& is, const auto& use) {
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
