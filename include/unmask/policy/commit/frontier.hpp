// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/policy.hpp>

namespace UNMASK_NAMESPACE {

/// Commits from the left, for text that a left-to-right grammar constrains: the first masked
/// position, the frontier, and those at most `reach` after it may commit; positions farther right
/// are excluded.
///
/// A grammar engine knows which tokens may follow a prefix, so it has a mask for the frontier only.
/// In each step, give the frontier's row that mask in row_modifiers::allowed and every other row a
/// mask of ones; report().committed_prefix is the frontier if the whole answer is constrained. Each
/// committed token then continues the prefix, and the answer satisfies the grammar if it is long
/// enough for the grammar to end. With reach > 0 a mask must be valid for any tokens committed left
/// of it in the same step: fields of fixed length, or a lexer with a lookahead of `reach` tokens.
///
/// A commit rule: combine it with others by `&&`. If the others commit nothing, the progress
/// guarantee commits the best candidate within reach; combined by `||` it still excludes positions
/// farther right. It applies to the answer offsets [first, last), with a frontier of their own;
/// positions elsewhere commit by the other rules, so free text can surround a constrained field. A
/// frontier whose row has no finite logit (a mask of zeros) commits the lowest token that may be
/// proposed, and counts in sequence_report::invalid_rows.
///
/// Combines with every ranking, commit rule, schedule and edit. Not with lookahead, whose branches
/// place tokens whose bitmask was made without the tokens left of them; not with parts that
/// rewrite committed tokens; not with a canvas, which commits nothing before its end.
/// Range: reach >= 0, 0 <= first <= last. With reach 0 one token a step.
/// Cost: O(answer) a candidate in the worst case. No state.
/// Example: `all_of(at_frontier, threshold(0.5))`, rows a60 b90: `a_` `ab`.
struct at_frontier {
  index_t reach = 0;
  index_t first = 0;
  index_t last = 0x7fffffff;

  static constexpr statistics required = stat::none;
  static constexpr bool follows_text = true;

  static constexpr part_label label{
      "at_frontier",
      "commits at most reach positions after the first masked one: for left-to-right grammars"};
  static constexpr knob<at_frontier> knobs[] = {{"reach", &at_frontier::reach, at_least(0)},
                                                {"first", &at_frontier::first, at_least(0)},
                                                {"last", &at_frontier::last, at_least(0)}};

  void check(const sequence_shape&) const {
    check_argument(
        last >= first, "at_frontier::last", last, "at least at_frontier::first = ", first);
  }

  UNMASK_HD bool commits(const auto& c, const rank_info&, const auto& context) const {
    return is_within(context.at, c.position);
  }
  UNMASK_HD filter_result filter(const auto& c, const auto& context) const {
    return is_within(context.at, c.position) ? filter_result::keep : filter_result::excluded;
  }

 private:
  [[nodiscard]] UNMASK_HD bool is_within(const step_info& at, index_t position) const {
    const sequence_view& q = *at.view;
    if (!range{first, last}.contains(position - q.prompt_length)) {
      return true;
    }
    index_t frontier = math::max(q.committed_prefix, q.prompt_length + first);
    while (frontier < position && !q.is_masked(frontier)) {
      ++frontier;
    }
    return position - frontier <= reach;
  }
};
static_assert(commit_rule<at_frontier> && candidate_filter<at_frontier>);

}  // namespace unmask
