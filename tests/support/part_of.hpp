// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/policy.hpp>

#include <cstddef>
#include <type_traits>

namespace unmask::testing {

/// The part of type P, of which a policy has one.
template <class P, std::size_t I = 0, class Policy>
[[nodiscard]] constexpr const P& part_of(const Policy& p) {
  if constexpr (std::is_same_v<typename Policy::template part_type<I>, P>) {
    return p.template part_at<I>();
  } else {
    return part_of<P, I + 1>(p);
  }
}

}  // namespace unmask::testing
