// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/stats/truncate.hpp>
#include <unmask/step/revise.hpp>

/// What a truncating policy makes of a row that was just read, before the step decides.
namespace UNMASK_NAMESPACE::step {

/// The rules of all truncating parts at once.
template <class Policy>
[[nodiscard]] UNMASK_HD truncation truncation_of(const Policy& p) {
  truncation all;
  detail::for_each_part<Policy, &part_traits::truncates>(
      [&](auto at) { all = all.tightened(p.template part_at<decltype(at)::value>().kept()); });
  return all;
}

/// What keep_held() works in: the head of a row with the edited watched tokens in it.
template <class Policy>
using keep_space =
    canonical::head_cut<held_tokens::capacity + (Policy::watches > 0 ? Policy::watches : 1)>;

/// Finishes the record of scored position i in a branch from what the read held, as far as that
/// goes; false, in every lane, if it does not prove what is kept. Edits of watched tokens come
/// first: they keep no state, so the phase that revises rows has nothing left to do.
template <class Policy>
[[nodiscard]] UNMASK_HD bool keep_held(const auto& t,
                                       const slot_memory<Policy>& m,
                                       index_t branch,
                                       index_t i,
                                       held_tokens& held,
                                       keep_space<Policy>& cut) {
  record<Policy::required>& row = m.row(branch, i);
  if (t.lane() == 0) {
    if constexpr (Policy::watches > 0) {
      if (!phase::revise_row(m, branch, i)) {  // a token_list has left the watched tokens only
        held.clear();
      }
    }
  }
  t.sync();
  const truncation rules = truncation_of(*m.policy);
  if (!row.valid() || rules.keeps_all(m.vocab)) {
    return true;
  }
  if (t.lane() == 0) {
    cut.head.clear();
    cut.head.merge(held);
    if constexpr (Policy::watches > 0) {
      const watched_logits w = m.kept_apart(branch, i);
      for (index_t k = 0; k < w.count; ++k) {
        if (find_token(w.suppressed, w.suppressed_count, w.tokens[k]) < 0) {
          cut.head.push(w.logits[k], w.tokens[k]);
        }
      }
    }
  }
  t.sync();
  const auto limits = canonical::row_limits::of(rules, row.best, row.total());
  if (cut.measure(t, held, limits) < 0) {
    return false;
  }
  cut.finish(t, row, draw_of(m, i), rules.renormalises);
  return true;
}

}  // namespace unmask::step
