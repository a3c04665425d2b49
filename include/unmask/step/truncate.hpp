// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/stats/truncate.hpp>
#include <unmask/step/process_logits.hpp>

/// Truncation of a row that was just read, before the step decides.
namespace UNMASK_NAMESPACE::step {

/// The rules of all truncating parts together.
template <class Policy>
[[nodiscard]] UNMASK_HD truncation truncation_of(const Policy& p) {
  truncation all;
  detail::for_each_part<Policy, &part_traits::truncates>(
      [&](auto at) { all = all.tightened(p.template part_at<decltype(at)::value>().kept()); });
  return all;
}

/// Most columns in the head of a row: those held and the edited tracked tokens.
template <class Policy>
inline constexpr index_t cut_room =
    held_tokens::capacity + (Policy::tracks > 0 ? Policy::tracks : 1);

/// Completes the record of scored position i in a branch from the columns that the read held;
/// returns false, in every lane, if these do not determine the truncation. Edits of tracked tokens
/// are applied first: they keep no state, so the later processing phase has nothing left to do.
/// `cut(row, tracked tokens, rules, draw)` is canonical::cut_held().
template <class Policy>
[[nodiscard]] UNMASK_HD bool keep_held(const auto& t,
                                       const slot_memory<Policy>& m,
                                       index_t branch,
                                       index_t i,
                                       held_tokens& held,
                                       const auto& cut) {
  record<Policy::required>& row = m.row(branch, i);
  if (t.lane() == 0) {
    if constexpr (Policy::tracks > 0) {
      if (!phase::process_row(
              m, branch, i)) {  // an allowed_tokens has left the tracked tokens only
        held.clear();
        phase::forget_untracked(m, i);
      }
    }
  }
  t.sync();
  const truncation rules = truncation_of(*m.policy);
  if constexpr (provides_v<Policy::required, stat::truncated>) {
    if (t.lane() == 0 && row.valid() && rules.keeps_all(m.vocab)) {
      static_cast<field::truncated&>(row) = {m.vocab, 1.0F, 0.0F};
    }
  }
  return !row.valid() || rules.keeps_all(m.vocab) ||
         cut(row, m.kept_apart(branch, i), rules, draw_of(m, i));
}

}  // namespace unmask::step
