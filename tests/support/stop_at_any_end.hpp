// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/policy/stop.hpp>

namespace unmask::testing {

/// stop_at_end for models with and without an end token: the latter it never stops.
struct stop_at_any_end {
  using sequence_state = stop_at_end::sequence_state;
  static constexpr statistics required = stat::none;

  UNMASK_HD ending stop(const sequence_view& q, auto& own) const {
    return stop_at_end{}.stop(q, own);
  }
};
static_assert(stopping<stop_at_any_end> && !checked_with_model<stop_at_any_end>);

}  // namespace unmask::testing
