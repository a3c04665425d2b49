// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/math.hpp>

namespace UNMASK_NAMESPACE {

/// Summary of a lookahead branch for the choice of the best one: 12 bytes, the only data that ranks
/// with one branch each have to exchange in order to agree. `{}` is the record of an absent branch.
struct branch_record {
  /// Mean lookahead score of its masked positions; a branch with NaN cannot win.
  float score = math::from_bits(0x7fc00000U);
  /// Number of masked positions in the score; 0: nothing is left to decide, the score counts as 1.
  index_t active = 1;
  /// Number of tokens committed in addition to the sequence: 0 for the anchor.
  index_t committed = 0;

  [[nodiscard]] UNMASK_HD constexpr float lookahead_score() const {
    return active == 0 ? 1.0F : score;
  }
};

/// Order of branches: higher score first; between equals the one with more committed tokens.
[[nodiscard]] UNMASK_HD constexpr bool precedes(const branch_record& a, const branch_record& b) {
  return a.lookahead_score() > b.lookahead_score() ||
         (a.lookahead_score() == b.lookahead_score() && a.committed > b.committed);
}

/// Returns the index of the best branch among `count` >= 1, where record(b) is the branch_record of
/// branch b: the first in order, 0 if no branch can win. Depends on the records only, so ranks that
/// have all of them need not exchange the result.
/// Ties: the lowest index; the anchor, branch 0, wins against branches with as few committed
/// tokens.
/// Cost: O(count).
///
/// Source: LoPA (2025), section 3.2, which does not say how ties go.
[[nodiscard]] UNMASK_HD constexpr index_t select_branch(index_t count, const auto& record) {
  index_t winner = 0;
  branch_record best;
  for (index_t b = 0; b < count; ++b) {
    const branch_record r = record(b);
    const bool absent = math::is_nan(best.lookahead_score());
    if (!math::is_nan(r.lookahead_score()) && (absent || precedes(r, best))) {
      best = r;
      winner = b;
    }
  }
  return winner;
}

/// select_branch() for records in memory, as an all-gather returns them.
[[nodiscard]] UNMASK_HD constexpr index_t select_branch(const branch_record* records,
                                                        index_t count) {
  return select_branch(count, [records](index_t b) { return records[b]; });
}

}  // namespace unmask
