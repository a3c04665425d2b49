// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/types.hpp>

namespace UNMASK_NAMESPACE {

/// What an admission knows of a candidate beside its own statistics: its place among the others.
struct standing {
  /// 0 for the best by the policy's ranking. Ties go to the lower position.
  index_t rank = 0;
  /// Candidates in this step.
  index_t open = 0;
  /// Sum of the admission's cost over the better-ranked, 0 if it has no cost.
  float cost_before = 0.0F;
  /// Largest of those costs, -inf for the best-ranked.
  float largest_before = 0.0F;
  /// Score of the candidate ranked just before, +inf for the best-ranked.
  float score_before = 0.0F;
  /// Score of the best-ranked candidate.
  float best_score = 0.0F;
};

/// The same and the candidate's place in its run, a maximal row of candidates at consecutive
/// positions: for an admission that says `needs_runs`.
struct standing_in_run : standing {
  /// Better-ranked candidates in the same run: 0 for the best of its run.
  index_t run_rank = 0;
};

/// What becomes of a candidate in this step.
enum class delay : std::uint8_t {
  none,     ///< nothing
  last,     ///< it counts as hopeless: confidence and margin 0, entropy infinite, ranked behind the
            ///< others
  refused,  ///< it is not admitted; ranked last, so that a forced block commits it if it has no
            ///< other
  barred    ///< it is no candidate, and no forced block commits it: only a step that would else be
            ///< for nothing
};

}  // namespace unmask
