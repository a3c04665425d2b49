// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part.hpp>

namespace UNMASK_NAMESPACE {

/// Reduction over the tokens that a step committed or rewrote: `review(candidate, own) -> tally`,
/// merged in position order by `tally::merge` after the commits. stop(), schedule() and feed() then
/// read `own.tally`, which is `tally{}` after a step without commits.
///
/// The candidate is that of the token's row, which may be invalid; `candidate.current` is the
/// token. A token placed by lookahead is excluded: its row belongs to the previous step. A canvas
/// commits nothing before its end.
/// Cost: O(commits), in one thread.
template <class P>
concept reviewing =
    part<P> &&
    requires(const P& p, const detail::own_candidate<P>& c, scope<P>& own, tally_of<P>& sum) {
      typename P::tally;
      { p.review(c, own) } -> std::same_as<typename P::tally>;
      sum.merge(sum);
    };

}  // namespace unmask
