// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/part.hpp>

/// Functions that follow the decision of a commit rule.
namespace UNMASK_NAMESPACE {

/// Reduction over the tokens that a step committed or rewrote: `review(candidate, context) ->
/// step_reduction`, merged in position order by `step_reduction::merge` after the commits. stop(),
/// schedule() and set_query() then read `context.step_reduction`, which is `step_reduction{}` after
/// a step without commits.
///
/// The candidate belongs to the token's row, which may be invalid; `candidate.current` is the
/// token. A token placed by lookahead is excluded: its row belongs to the previous step. A canvas
/// commits nothing before its end.
/// Cost: O(commits), in one thread.
template <class P>
concept reviewing = part<P> && requires(const P& p,
                                        const detail::own_candidate<P>& c,
                                        part_context<P>& context,
                                        step_reduction_of<P>& sum) {
  typename P::step_reduction;
  { p.review(c, context) } -> std::same_as<typename P::step_reduction>;
  sum.merge(sum);
};

/// A rule about tokens that are written together: `admits(position, token, context) -> bool` is
/// called for each token that a step is about to commit, by rank, and then for each by which a part
/// replaces a committed one, by position. A token that a part does not allow is refused: its
/// position stays as it is, and is reported as candidate_outcome::refused.
///
/// `context.at.view->tokens` has the tokens that have passed in this step. One thread calls
/// admits(), which may write `context.sequence`. If every candidate of a step is refused, the best
/// one is committed all the same and counted in sequence_report::forced: that the rule is then kept
/// is the part's to ensure, by a rule under which some candidate always passes. Remasking
/// is not tested. Does not combine with lookahead, remask_below or a canvas.
/// Cost: one thread, admits() of each candidate that the commit rule accepts.
/// Example: all tokens of an answer differ.
///
///     bool admits(index_t position, token_id token, const auto& context) const {
///       const sequence_view& q = *context.at.view;
///       bool differs = true;
///       for (index_t p = q.prompt_length; p < q.length; ++p) {
///         differs = differs && (p == position || q.tokens[p] != token);
///       }
///       return differs;
///     }
template <class P>
concept gating = part<P> && requires(const P& p, token_id token, part_context<P>& context) {
  { p.admits(index_t{}, token, context) } -> std::same_as<bool>;
};

}  // namespace unmask
