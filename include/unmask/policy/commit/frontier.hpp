// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/knob.hpp>
#include <unmask/core/policy.hpp>

namespace UNMASK_NAMESPACE {

/// Commits from the left, for text that a left-to-right grammar constrains: admits the first open
/// position, the frontier, and those at most `reach` behind it; nothing commits farther right.
///
/// A grammar engine knows which tokens may follow a prefix, so it has a mask for the frontier only.
/// Each step, give the frontier's row that mask in row_riders::allowed and every other row a mask
/// of ones; report().settled is where the frontier is, if the whole answer is constrained. What is
/// committed then continues the prefix, and so does the whole answer, if the answer is long enough
/// for the grammar to come to its end. With reach > 0 a mask must hold whatever is committed left
/// of it in the same step: fields of fixed length, a lexer that looks `reach` tokens ahead.
///
/// An admission: join it with others by `&&`. Where the others admit nothing, the promise of
/// progress commits the best candidate within reach; joined by `||` it still bars what is farther.
/// It applies to the answer offsets [first, last), whose frontier it is then: positions elsewhere
/// commit as the other admissions say, which is how free text stands beside a constrained field. A
/// frontier whose row has no finite logit (a mask of zeros) commits the lowest token that may be
/// proposed, and counts in sequence_report::invalid_rows.
///
/// Goes with every ranking, admission, schedule and edit. Not with lookahead, whose branches place
/// tokens that were masked without what stands left of them; not with parts that rewrite settled
/// tokens; not with a canvas, which settles nothing. Range reach >= 0, 0 <= first <= last. One
/// token a step with reach 0. O(answer) a candidate at the worst. Keeps no state.
struct at_frontier {
  index_t reach = 0;
  index_t first = 0;
  index_t last = 0x7fffffff;

  static constexpr statistics required = stat::none;
  static constexpr bool follows_text = true;

  static constexpr part_label label{
      "at_frontier",
      "at_frontier",
      "nothing far behind the first open position: for grammars that read from left to right"};
  static constexpr knob<at_frontier> knobs[] = {
      {"reach", &at_frontier::reach, at_least(0)},
      {"first", &at_frontier::first, at_least(0)},
      {"last", &at_frontier::last, at_least(0)}};

  void check(const layout&) const {
    check_argument(last >= first, "at_frontier::last", last, "at least at_frontier::first");
  }

  UNMASK_HD bool admits(const auto& c, const standing&, const auto& own) const {
    return is_within(own.at, c.position);
  }
  UNMASK_HD delay delays(const auto& c, const auto& own) const {
    return is_within(own.at, c.position) ? delay::none : delay::barred;
  }

 private:
  [[nodiscard]] UNMASK_HD bool is_within(const step_info& at, index_t position) const {
    const sequence_view& q = *at.view;
    if (!range{first, last}.contains(position - q.prompt)) {
      return true;
    }
    index_t frontier = math::max(q.settled, q.prompt + first);
    while (frontier < position && !q.is_open(frontier)) {
      ++frontier;
    }
    return position - frontier <= reach;
  }
};
static_assert(admission<at_frontier> && delaying<at_frontier>);

}  // namespace unmask
