// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/policy.hpp>

namespace UNMASK_NAMESPACE::detail {

// For `composed_with`: what else is in a policy, in written order.

template <class Part, class Leaves>
struct among;

template <class Part, class... Leaf>
struct among<Part, type_list<Leaf...>> {
  // How many parts of this very type.
  static constexpr int count = (int{std::is_same_v<Part, Leaf>} + ... + 0);

  // True when some part looks ahead, rewrites settled tokens, or settles none before the end.
  static constexpr bool looks_ahead = (branching<Leaf> || ...);
  static constexpr bool rewrites = ((revisiting<Leaf> || remasking<Leaf>) || ...);
  static constexpr bool paints = (renoising<Leaf> || ...);

  // True when candidates are ranked by confidence.
  static constexpr bool by_confidence = ((!ranking<Leaf> || ordering_by_confidence<Leaf>) && ...);

  // True when a part that remembers what led at a position revises rows before the last Part does.
  static constexpr bool after_memory = [] {
    bool memory = false;
    bool after = false;
    ((after = after || (std::is_same_v<Part, Leaf> && memory),
      memory = memory || (revision<Leaf> && !std::is_same_v<position_state_of<Leaf>, no_state>)),
     ...);
    return after;
  }();
};

}  // namespace unmask::detail
