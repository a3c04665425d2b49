// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/part.hpp>

namespace UNMASK_NAMESPACE {

/// A schedule that finds the end of a block in the rows of its first pass: `block_end(sequence,
/// plan, context) -> index_t` is called after the step reduction, which it reads from
/// `context.step_reduction`, and may write `context.sequence`. The step decides [plan.score.first,
/// the result) as if the shorter range had been planned; a result at or after plan.score.last, or
/// not after plan.score.first, changes nothing. plan.score.first must be masked: a layer rule that
/// skips positions computes it, so that every step commits. A part that only ends blocks with some
/// values of its knobs has `ends_blocks_now() -> bool`.
/// Cost: a step that is shortened ranks and reduces its candidates twice.
template <class P>
concept block_ending =
    part<P> &&
    requires(const P& p, const sequence_view& q, const plan& now, part_context<P>& context) {
      { p.block_end(q, now, context) } -> std::same_as<index_t>;
    };

}  // namespace unmask
