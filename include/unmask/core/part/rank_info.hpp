// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/record.hpp>

#include <concepts>
#include <type_traits>

namespace UNMASK_NAMESPACE {

/// Rank of a candidate and sums over the better-ranked ones: input of a commit rule in addition to
/// the candidate's statistics.
struct rank_info {
  /// 0 for the best candidate by the policy's ranking. Ties: the lower position.
  index_t rank = 0;
  /// Number of candidates in this step.
  index_t candidates = 0;
  /// Sum of the commit rule's cost over the better-ranked candidates, 0 if it has no cost.
  float cost_before = 0.0F;
  /// Largest of those costs, -inf for the best-ranked.
  float largest_before = 0.0F;
  /// Score of the candidate ranked just before, +inf for the best-ranked.
  float score_before = 0.0F;
  /// Score of the best-ranked candidate.
  float best_score = 0.0F;
};

/// Adds the candidate's rank in its span, a maximal sequence of candidates at consecutive
/// positions: for a commit rule that declares `needs_spans`.
struct rank_info_in_span : rank_info {
  /// Better-ranked candidates in the same span: 0 for the best one.
  index_t span_rank = 0;
};

/// Value of the distance to an anchor if there is none within the radius.
inline constexpr index_t no_anchor = INT32_MAX;

/// Adds the distance to the nearest anchor, for a part with anchors(). span_rank is 0 unless a part
/// declares `needs_spans`.
struct rank_info_by_anchors : rank_info_in_span {
  /// Positions to the nearest anchor on either side, 0 for an anchor; no_anchor if none is within
  /// the part's anchor_radius().
  index_t anchor_distance = no_anchor;
};

/// A commit rule with anchors among the candidates: `anchors(candidate) -> bool`, called for every
/// candidate before any commits, and `anchor_radius() -> index_t`, the largest distance in the
/// rank_info_by_anchors that its commits() gets; below 0 there is no search. At most one part of a
/// policy.
/// Cost: O(anchor_radius()) a candidate, a byte a position.
template <class P>
concept anchoring = requires(const P& p, const candidate<P::required>& c) {
  { p.anchors(c) } -> std::same_as<bool>;
  { p.anchor_radius() } -> std::same_as<index_t>;
};

namespace detail {

template <class P>
inline constexpr bool ranks_in_spans = false;
template <class P>
  requires(P::needs_spans)
inline constexpr bool ranks_in_spans<P> = true;

/// Type of the rank information that the commits() of part P takes.
template <class P>
using rank_info_for =
    std::conditional_t<anchoring<P>,
                       rank_info_by_anchors,
                       std::conditional_t<ranks_in_spans<P>, rank_info_in_span, rank_info>>;

}  // namespace detail

/// Treatment of a candidate in this step by a part with filter().
enum class filter_result : std::uint8_t {
  keep,         ///< nothing
  ranked_last,  ///< ranked last, with confidence and margin 0 and infinite entropy
  rejected,  ///< rejected, and ranked last: committed only if a forced block has no other candidate
  excluded   ///< excluded: no candidate; a forced block does not commit it either, unless the step
             ///< would commit nothing at all
};

}  // namespace unmask
