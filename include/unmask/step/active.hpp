// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/walk.hpp>

/// Stages that the parts of a policy use with their current values. A part without the function of
/// that name uses its stage always, so that these are constants for most policies composed in C++;
/// for a policy by name they read its parts.
namespace UNMASK_NAMESPACE::step {

// True if a part with the trait `Does` returns true from `Function`, or has no such function.
#define UNMASK_ACTIVE(Name, Does, Function)                                                        \
  template <class Policy>                                                                          \
  [[nodiscard]] UNMASK_HD bool Name(const Policy& p) {                                             \
    return detail::any_part_now<Policy, &part_traits::Does>(                                       \
        p, [](const auto& part) -> decltype(part.Function()) { return part.Function(); });         \
  }

/// True if a part transforms logits.
UNMASK_ACTIVE(transforms_now, transforms, transforms_now)
/// True if an edit of rows depends on the tokens around a position.
UNMASK_ACTIVE(reads_sequence_now, reads_sequence, reads_sequence_now)
/// True if a part edits or probes rows after their read.
UNMASK_ACTIVE(processes_now, visits_rows, processes_now)
/// True if a part reports probabilities of tokens.
UNMASK_ACTIVE(probes_now, is_probe, probes_now)
/// True if a part reads the probability of committed tokens.
UNMASK_ACTIVE(tracks_current_now, tracks_current, tracks_current_now)
/// True if a part edits or remasks committed tokens.
UNMASK_ACTIVE(edits_tokens_now, rewrites, edits_tokens_now)
/// True if a part looks at committed tokens again without them.
UNMASK_ACTIVE(reconsiders_now, reconsiders, reconsiders_now)
/// True if the schedule checks drafts.
UNMASK_ACTIVE(verifies_now, verifies, verifies_now)
/// True if a part makes committed positions candidates.
UNMASK_ACTIVE(remasks_now, remasks, edits_tokens_now)
/// True if a part remasks the least certain tokens.
UNMASK_ACTIVE(remasks_least_now, remasks_least, edits_tokens_now)
/// True if a part rewrites the scored block as a whole.
UNMASK_ACTIVE(rewrites_blocks_now, rewrites_blocks, rewrites_blocks_now)
/// True if committed positions are read in a shadow segment.
UNMASK_ACTIVE(shadows_now, shadows, shadows_now)
/// True if the ranking reads the step reduction.
UNMASK_ACTIVE(ranks_by_reduction_now, ranks_by_reduction, ranks_by_reduction_now)
/// True if a part reduces over the commits of a step.
UNMASK_ACTIVE(reviews_now, reviews, reviews_now)
/// True if a schedule decides itself when the sequence is complete.
UNMASK_ACTIVE(paces_now, paces, paces_now)
/// True if a part compares rows with those of the previous step.
UNMASK_ACTIVE(compares_now, compares, compares_now)
/// True if a part keeps only the most probable tokens of a row.
UNMASK_ACTIVE(truncates_now, truncates, truncates_now)
/// True if a part has lookahead branches.
UNMASK_ACTIVE(looks_ahead_now, branches, branches_now)
/// True if a part has drafts.
UNMASK_ACTIVE(drafts_now, drafts, branches_now)
/// True if a part has a beam.
UNMASK_ACTIVE(beams_now, beams, branches_now)
/// True if a part decides on a canvas.
UNMASK_ACTIVE(renoises_now, renoises, renoises_now)
/// True if a cache limits the positions of a pass.
UNMASK_ACTIVE(caches_now, caches, caches_now)
/// True if a cache excludes single positions from a pass.
UNMASK_ACTIVE(picks_now, picks, picks_now)
/// True if a layer rule selects positions.
UNMASK_ACTIVE(skips_now, skips, skips_now)
/// True if a schedule finds the end of a block in its rows.
UNMASK_ACTIVE(ends_blocks_now, ends_blocks, ends_blocks_now)
#undef UNMASK_ACTIVE

/// True if a part has branches, of lookahead, drafts or a beam.
template <class Policy>
[[nodiscard]] UNMASK_HD bool branches_now(const Policy& p) {
  return looks_ahead_now(p) || drafts_now(p) || beams_now(p);
}

/// True if layers compute some of the positions only.
template <class Policy>
[[nodiscard]] UNMASK_HD bool layered_now(const Policy& p) {
  return picks_now(p) || skips_now(p);
}

}  // namespace unmask::step
