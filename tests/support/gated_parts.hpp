// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/policy.hpp>

namespace unmask::testing {

/// A filter that a user may write: two of three positions wait for another step, and with them the
/// last ones of an answer, which the progress guarantee commits.
struct takes_turns {
  static constexpr statistics required = stat::none;

  UNMASK_HD filter_result filter(const auto& candidate, const auto& context) const {
    return (candidate.position + context.at.view->step) % 3 == 0 ? filter_result::keep
                                                                 : filter_result::excluded;
  }
};
static_assert(candidate_filter<takes_turns>);

/// A gate that a user may write: refuses even tokens.
struct odd_tokens {
  static constexpr statistics required = stat::none;

  UNMASK_HD bool admits(index_t, token_id token, const auto&) const { return token % 2 == 1; }
};
static_assert(gating<odd_tokens>);

}  // namespace unmask::testing
