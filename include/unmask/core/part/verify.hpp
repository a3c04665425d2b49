// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/forwards.hpp>

namespace UNMASK_NAMESPACE {

/// A schedule whose passes alternate between drafts and checks, by two members of the plan. The
/// tokens that a pass with plan::drafts commits are drafts: positions from the first of its scored
/// range on are no part of the committed prefix, so nothing stops at them. A pass with plan::checks
/// has no commit rule: `accepts(candidate, context) -> bool` says of each committed position of the
/// scored range, in parallel, whether its token `candidate.current` stands next to the proposed one
/// `candidate.token`. At the first that does not, or that is masked, the proposed token is written,
/// and every position right of it is masked again. A row of NaN proposes the token that it commits
/// elsewhere.
///
/// The masked tokens are not charged: `extra_forwards` must cover drafts that are not accepted.
/// With `static constexpr bool tracks_current = true`, context.at.current_probability is that of
/// candidate.current.
template <class P>
concept verifying =
    scheduling<P> &&
    requires(const P& p, const detail::own_candidate<P>& c, part_context<P>& context) {
      { p.accepts(c, context) } -> std::same_as<bool>;
    };

}  // namespace unmask
