// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/branches.hpp>
#include <unmask/step/soft_tokens.hpp>

/// Processing of the rows of a step before the decision: edits after the read, and data for the
/// next step.
namespace UNMASK_NAMESPACE::step::phase {

/// The branch with which this step continues; 0 without lookahead.
template <class Policy>
[[nodiscard]] UNMASK_HD index_t winner_of(const slot_memory<Policy>& m) {
  if constexpr (Policy::branches) {
    return m.state->winner;
  } else {
    static_cast<void>(m);
    return 0;
  }
}

/// Adds the tracked tokens back to the row of scored position i, after the logits processors; an
/// invalid row gets only those that the parts allow. Returns false if the parts have left the
/// tracked tokens only.
template <class Policy>
UNMASK_HD bool process_row(const slot_memory<Policy>& m, index_t branch, index_t i) {
  const index_t position = m.status->next.score.first + i;
  revisable_row<Policy::required> row{m.row(branch, i), m.kept_apart(branch, i), draw_of(m, i)};
  const step_info at = info_of(*m.state, m.status->next, position);
  if (row.total().valid()) {
    if (m.marks[position] == mark::masked) {
      step::process<mark::masked>(m, row, m.cell_of(position), at);
    } else {
      step::process<mark::committed>(m, row, m.cell_of(position), at);
    }
  } else if constexpr (stages<Policy>::restricts > 0) {
    row.keep_allowed([&](token_id token) { return allows(*m.policy, token, at); });
  }
  m.row(branch, i) = row.total();
  return row.has_untracked();
}

/// True if rows are processed after their read. Those of a policy that truncates and tracks tokens
/// are processed before the truncation, while they are read.
template <class Policy>
[[nodiscard]] UNMASK_HD bool processes_rows(const slot_memory<Policy>& m) {
  return (processes_now(m) || tracks_current_now(m)) &&
         !(slot_memory<Policy>::tracks && truncates_now(m));
}

/// Processes each row that was read, if a part changes rows or has tracked tokens.
template <class Policy>
UNMASK_HD void process(const auto& t, const slot_memory<Policy>& m) {
  if constexpr (slot_memory<Policy>::tracks || stages<Policy>::logits_processors > 0) {
    for (index_t i = t.lane(); i < m.read_range().size(); i += t.lanes()) {
      if (m.reads(winner_of(m), i) && !process_row(m, winner_of(m), i)) {
        forget_untracked(m, i);
      }
    }
    t.sync();
  }
}

/// Processes the row of scored position i, which was read a second time.
template <class Policy>
void process_again([[maybe_unused]] const slot_memory<Policy>& m, [[maybe_unused]] index_t i) {
  if constexpr (slot_memory<Policy>::tracks || stages<Policy>::logits_processors > 0) {
    if (processes_rows(m) && !process_row(m, winner_of(m), i)) {
      forget_untracked(m, i);
    }
  }
}

/// Stores what the next step needs of the rows just read; this one does not read it.
template <class Policy>
UNMASK_HD void store_previous_rows(const auto& t, const slot_memory<Policy>& m) {
  if constexpr (Policy::compares) {
    const range read = m.read_range();
    for (index_t i = t.lane(); i < read.size(); i += t.lanes()) {
      const record<Policy::required>& row = m.row(i);
      if (m.decides(0, i)) {  // the cell of a committed position belongs to the next block
        previous_row& before = m.previous_rows[m.cell_of(read.first + i)];
        before.seen = row.valid();
        before.best = row.best;
        before.log_total = row.valid() ? math::log1p(row.rest) : 0.0F;
        if constexpr (provides_v<Policy::required, stat::second_moment>) {
          before.square = row.square;
        }
      }
    }
  }
}

}  // namespace unmask::step::phase
