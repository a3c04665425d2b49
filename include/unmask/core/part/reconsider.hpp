// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/part.hpp>

namespace UNMASK_NAMESPACE {

/// A part that looks at some committed tokens again without them. After the commit rule of a step,
/// the `hide_count(context)` committed positions of the scored range with the lowest
/// `hide_score(candidate, context)` are hidden: in the next pass, plan::hides, the engine finds the
/// mask token there, and where the step has just committed. The rows of those that were committed
/// before are read, the tokens are put back, and of these positions the `reconsider_count(context)`
/// with the lowest `reconsider_score(candidate, context)` take the proposed token, where
/// candidate.current is the token that was hidden and context.at.current_probability its
/// probability. Ties: the lower position; NaN is neither hidden nor replaced. A step that hides
/// nothing has no such pass.
///
/// With `redecides()` a step some of whose tokens were replaced decides again what it had
/// committed, in one more pass. context.at.block_step counts neither pass. Counts are asked once
/// for the scored range, scores in parallel. `extra_checks(sequence_shape) -> std::int64_t` is the
/// largest number of both passes. A sequence that is cancelled in such a pass keeps the masks.
/// Cost: two sorts of the scored range in each step that hides; 8 bytes a position of the window.
template <class P>
concept reconsidering = part<P> && requires(const P& p,
                                            const detail::own_candidate<P>& c,
                                            part_context<P>& context,
                                            const sequence_shape& g) {
  { p.hide_count(context) } -> std::same_as<index_t>;
  { p.hide_score(c, context) } -> std::same_as<float>;
  { p.reconsider_count(context) } -> std::same_as<index_t>;
  { p.reconsider_score(c, context) } -> std::same_as<float>;
  { p.redecides() } -> std::same_as<bool>;
  { p.extra_checks(g) } -> std::convertible_to<std::int64_t>;
};

}  // namespace unmask
