// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/types.hpp>

namespace UNMASK_NAMESPACE {

/// Rank of a candidate and sums over the better-ranked ones: input of a commit rule beside the
/// candidate's own statistics.
struct standing {
  /// 0 for the best candidate by the policy's ranking. Ties: the lower position.
  index_t rank = 0;
  /// Number of candidates in this step.
  index_t open = 0;
  /// Sum of the commit rule's cost over the better-ranked candidates, 0 if it has no cost.
  float cost_before = 0.0F;
  /// Largest of those costs, -inf for the best-ranked.
  float largest_before = 0.0F;
  /// Score of the candidate ranked just before, +inf for the best-ranked.
  float score_before = 0.0F;
  /// Score of the best-ranked candidate.
  float best_score = 0.0F;
};

/// Adds the candidate's rank in its run, a maximal sequence of candidates at consecutive positions:
/// for a commit rule that declares `needs_runs`.
struct standing_in_run : standing {
  /// Better-ranked candidates in the same run: 0 for the best one.
  index_t run_rank = 0;
};

/// Treatment of a candidate in this step by a part with delays().
enum class delay : std::uint8_t {
  none,     ///< nothing
  last,     ///< ranked last, with confidence and margin 0 and infinite entropy
  refused,  ///< rejected, and ranked last: committed only if a forced block has no other candidate
  barred    ///< excluded: no candidate; a forced block does not commit it either, unless the step
            ///< would commit nothing at all
};

}  // namespace unmask
