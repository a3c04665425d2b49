// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/types.hpp>

#include <concepts>

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

/// A team of one.
struct solo {
  [[nodiscard]] UNMASK_HD constexpr index_t lane() const { return 0; }
  [[nodiscard]] UNMASK_HD constexpr index_t lanes() const { return 1; }
  UNMASK_HD constexpr void sync() const {}
};
static_assert(team<solo>);

}  // namespace unmask
