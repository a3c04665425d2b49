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

/// Most columns that the head of a row has: those held and the edited watched tokens.
template <class Policy>
inline constexpr index_t cut_room =
    held_tokens::capacity + (Policy::watches > 0 ? Policy::watches : 1);

/// Finishes the record of scored position i in a branch from what the read held, as far as that
/// goes; false, in every lane, if it does not prove what is kept. Edits of watched tokens come
/// first: they keep no state, so the phase that revises rows has nothing left to do. `cut(row,
/// watched tokens, rules, draw)` is canonical::cut_held().
template <class Policy>
[[nodiscard]] UNMASK_HD bool keep_held(const auto& t,
                                       const slot_memory<Policy>& m,
                                       index_t branch,
                                       index_t i,
                                       held_tokens& held,
                                       const auto& cut) {
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
  return !row.valid() || rules.keeps_all(m.vocab) ||
         cut(row, m.kept_apart(branch, i), rules, draw_of(m, i));
}

}  // namespace unmask::step
