// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/part.hpp>

namespace UNMASK_NAMESPACE {

/// Reduction over the tokens that a step committed or rewrote: `review(candidate, context) ->
/// step_reduction`, merged in position order by `step_reduction::merge` after the commits. stop(),
/// schedule() and set_query() then read `context.step_reduction`, which is `step_reduction{}` after
/// a step without commits.
///
/// The candidate is that of the token's row, which may be invalid; `candidate.current` is the
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

}  // namespace unmask
