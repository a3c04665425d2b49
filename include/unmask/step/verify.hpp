// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/commit.hpp>

namespace UNMASK_NAMESPACE::step::phase {

/// True if the draft at scored position i stays; a masked position does not.
template <class Policy>
[[nodiscard]] UNMASK_HD bool stands(const slot_memory<Policy>& m, index_t i) {
  if (!m.reads(i)) {
    return true;  // given by the caller
  }
  const index_t position = m.status->next.score.first + i;
  if (m.marks[position] == mark::masked) {
    return false;
  }
  candidate<Policy::required> c = candidate_at(m, i);
  c.token = proposal(m, i);
  step_info at = info_of(*m.state, m.status->next, position);
  at.current_probability = current_probability(m, m.row(i), i);
  return accepts(m, c, at);
}

/// Sets the roles of a step that checks drafts: at the first rejected position the proposed token
/// is written, and positions right of it are masked again.
template <class Policy>
UNMASK_HD void verify(const deciding_group auto& t, const slot_memory<Policy>& m) {
  const range scored = m.status->next.score;
  index_t verifying_part = -1;
  detail::visit_parts<&part_traits::verifies>(
      *m.policy, [&](const auto& v) { verifying_part = v.text_index; });
  index_t before = 0;  // rejected positions, left of the positions of a round
  for_each_in_rounds(t, scored.size(), [&](index_t i, bool is_there) {
    const bool falls = is_there && !stands(m, i);
    const lane_count fallen = t.count(falls);
    const bool is_first = falls && before + fallen.before == 0;
    if (is_there && m.reads(i) && (falls || before + fallen.before > 0)) {
      const bool is_committed = m.marks[scored.first + i] == mark::committed;
      const bool is_cut = is_first && proposal(m, i) != m.state->model.mask_token;
      const bool is_invalid = m.roles[i] == role::invalid;
      m.note(i, {is_invalid ? -1 : verifying_part});
      if (is_cut && is_invalid) {
        m.note_forced(i);
        ++m.status->report.forced;
      }
      m.roles[i] = is_committed ? (is_cut ? role::replaced : role::remasked)
                   : !is_cut    ? m.roles[i]
                   : is_invalid ? role::forced
                                : role::accepted;
    }
    before += fallen.all;
  });
  t.sync();  // before a gate reads all roles; no gate combines with checks yet
}

}  // namespace unmask::step::phase
