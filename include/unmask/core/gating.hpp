// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part.hpp>

namespace UNMASK_NAMESPACE {

/// A rule about tokens that stand together: `admits(position, token, context) -> bool` is called
/// for each token that a step is about to commit, by rank, and then for each by which a part
/// replaces a committed one, by position. A token that a part does not admit is refused: its
/// position stays as it is, and is reported as candidate_outcome::refused.
///
/// `context.at.view->tokens` has the tokens that this step has already admitted. One thread calls
/// admits(), which may write `context.sequence`. If every candidate of a step is refused, the best
/// one is committed all the same and counted in sequence_report::forced: that the rule is then kept
/// is the part's to ensure, by a rule under which some candidate can always be admitted. Remasking
/// is not tested. Does not go with lookahead, remask_below or a canvas.
/// Cost: one thread, admits() of each candidate that the commit rule accepts.
/// Example: the rules of Sudoku in examples/sudoku/rules.hpp.
template <class P>
concept gating = part<P> && requires(const P& p, token_id token, part_context<P>& context) {
  { p.admits(index_t{}, token, context) } -> std::same_as<bool>;
};

}  // namespace unmask
