// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part.hpp>

namespace UNMASK_NAMESPACE {

/// Folds something over the tokens that a step wrote, rewritten ones included: `review(candidate,
/// own) -> tally`, merged in position order by `tally::merge` behind the commits, for what decides
/// about the next pass; stop(), schedule() and feed() then read `own.tally`, `tally{}` if nothing
/// was written. The candidate is that of the row which the token came from, perhaps an invalid one,
/// and `current` the token; one that lookahead placed came from a row of the step before and is left
/// out. A canvas writes nothing before its end. O(tokens), no memory but the tally.
template <class P>
concept reviewing = part<P> &&
    requires(const P& p, const detail::own_candidate<P>& c, scope<P>& own, tally_of<P>& sum) {
  typename P::tally;
  { p.review(c, own) } -> std::same_as<typename P::tally>;
  sum.merge(sum);
};

}  // namespace unmask
