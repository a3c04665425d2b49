// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/policy/stop.hpp>

namespace unmask::testing {

/// stop_at_eos for models with and without an EOS token: the latter it never stops.
struct stop_at_any_end {
  using sequence_state = stop_at_eos::sequence_state;
  static constexpr statistics required = stat::none;

  UNMASK_HD ending stop(const sequence_view& q, auto& context) const {
    return stop_at_eos{}.stop(q, context);
  }
};
static_assert(stopping<stop_at_any_end> && !checked_with_model<stop_at_any_end>);

}  // namespace unmask::testing
