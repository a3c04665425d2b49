// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/stats/truncate.hpp>
#include <unmask/step/revise.hpp>

/// What a truncating policy makes of a row that was just read, before the step decides.
namespace UNMASK_NAMESPACE::step {

/// The rules of all truncating parts at once.
template <std::size_t I = 0, class Policy>
[[nodiscard]] UNMASK_HD truncation truncation_of(const Policy& p) {
  if constexpr (I == Policy::leaf_total) {
    static_cast<void>(p);
    return {};
  } else if constexpr (truncating<typename Policy::template leaf_type<I>>) {
    return truncation_of<I + 1>(p).tightened(p.template part_at<I>().kept());
  } else {
    return truncation_of<I + 1>(p);
  }
}

/// The head of a row with the edited watched tokens in it.
template <class Policy>
using row_head = held_list<64 + (Policy::watches > 0 ? Policy::watches : 1)>;

/// Finishes the record of scored position i in a branch from what the read held, as far as that
/// goes; false if it does not prove what is kept. Edits of watched tokens come first: they keep no
/// state, so the phase that revises rows has nothing left to do.
template <class Policy>
[[nodiscard]] UNMASK_HD bool
keep_held(const slot_memory<Policy>& m, index_t branch, index_t i, const held_tokens& held) {
  record<Policy::required>& row = m.row(branch, i);
  bool unwatched = true;
  if constexpr (Policy::watches > 0) {
    unwatched = phase::revise_row(m, branch, i);
  }
  const truncation rules = truncation_of(*m.policy);
  if (!row.valid() || rules.keeps_all(m.vocab)) {
    return true;
  }
  row_head<Policy> head;
  const held_tokens nothing;
  const held_tokens& left = unwatched ? held : nothing;  // a token_list takes the others out
  head.merge(left);
  if constexpr (Policy::watches > 0) {
    const watched_logits w = m.kept_apart(branch, i);
    for (index_t k = 0; k < w.count; ++k) {
      if (find_token(w.suppressed, w.suppressed_count, w.tokens[k]) < 0) {
        head.push(w.logits[k], w.tokens[k]);
      }
    }
  }
  const auto limits = canonical::row_limits::of(rules, row.best, row.total());
  const index_t count = canonical::kept_of(head, left, limits);
  if (count >= 0) {
    canonical::keep_first(row, head, count, draw_of(m, i), rules.renormalises);
  }
  return count >= 0;
}

}  // namespace unmask::step
