// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/math.hpp>

namespace UNMASK_NAMESPACE {

/// What is known of a lookahead branch when one is elected: 12 bytes, all that ranks which run one
/// branch each have to tell each other in order to agree. `{}` is the record of a branch that is
/// not there.
struct branch_record {
  /// Mean worth of its open positions; NaN takes no part.
  float score = math::from_bits(0x7fc00000U);
  /// Open positions that the score is about; 0: nothing is left to decide, the score counts as 1.
  index_t active = 1;
  /// Tokens that it has committed beyond the sequence it looks ahead of: 0 for the anchor.
  index_t committed = 0;

  [[nodiscard]] UNMASK_HD constexpr float worth() const { return active == 0 ? 1.0F : score; }
};

/// The order of branches: the higher worth first; between equals the one that has committed more.
[[nodiscard]] UNMASK_HD constexpr bool precedes(const branch_record& a, const branch_record& b) {
  return a.worth() > b.worth() || (a.worth() == b.worth() && a.committed > b.committed);
}

/// Index of the branch to go on with among `count` >= 1, where record(b) is the branch_record of
/// branch b: the first in order, the lowest index between equals, 0 if none takes part. A function
/// of the records alone, so ranks that have them all need not tell each other the outcome. The
/// anchor, branch 0, wins a tie with branches that have committed as little as it has. O(count).
///
/// Source: LoPA (2025), section 3.2, which leaves ties open.
[[nodiscard]] UNMASK_HD constexpr index_t select_branch(index_t count, const auto& record) {
  index_t winner = 0;
  branch_record best;
  for (index_t b = 0; b < count; ++b) {
    const branch_record r = record(b);
    const bool absent = math::is_nan(best.worth());
    if (!math::is_nan(r.worth()) && (absent || precedes(r, best))) {
      best = r;
      winner = b;
    }
  }
  return winner;
}

/// The same for records in memory, as an all-gather leaves them.
[[nodiscard]] UNMASK_HD constexpr index_t select_branch(const branch_record* records,
                                                        index_t count) {
  return select_branch(count, [records](index_t b) { return records[b]; });
}

}  // namespace unmask
