// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/policy.hpp>

namespace unmask::testing {

/// A commit rule that a user may write: commits where the three most probable tokens have this much
/// of the probability.
struct three_hold {
  float threshold = 0.9F;
  static constexpr statistics required = stat::top3_mass;

  UNMASK_HD bool commits(const auto& candidate, const rank_info&) const {
    return candidate.top3_mass() >= threshold;
  }
};
static_assert(commit_rule<three_hold>);

}  // namespace unmask::testing
