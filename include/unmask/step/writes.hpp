// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/context.hpp>

/// Writing a token, and the entry of a report.
namespace UNMASK_NAMESPACE::step {

/// The log-probability of a token in reports: -inf if its row was invalid.
template <statistics S>
[[nodiscard]] UNMASK_HD float log_probability_of(const candidate<S>& c) {
  return c.valid() ? c.log_probability() : -math::infinity();
}

/// The report entry of a token at a scored position.
[[nodiscard]] UNMASK_HD inline commit_entry entry_of(
    const slot_arrays& m, index_t position, token_id token, float log_probability, index_t rank) {
  const step_info at = info_of(*m.state, m.status->next, position);
  return {m.slot,
          position,
          token,
          log_probability,
          at.step - m.spared(),
          at.block_index,
          at.block_step - m.spared_in(at.block_index),
          rank};
}

/// Lane 0: writes a token to a masked position, and reports it.
template <class Policy>
UNMASK_HD void commit_token(const slot_memory<Policy>& m,
                            index_t position,
                            token_id token,
                            float log_probability) {
  m.entries[m.status->report.last_commits++] = entry_of(m, position, token, log_probability, -1);
  m.state->tokens[position] = token;
  m.marks[position] = mark::committed;
  m.reset(m.cell_of(position));
  --m.state->view.masked_count;
  ++m.state->view.changed;
  m.state->view.first_changed = math::min(m.state->view.first_changed, position);
  ++m.status->report.committed;
}

/// Lane 0: completes the view of the step that ends.
UNMASK_HD inline void close_view(const slot_arrays& m) {
  sequence_view& q = m.state->view;
  const plan& now = m.status->next;
  const index_t end = now.kind == pass_kind::drafting ? now.score.first : q.length;
  q.committed_prefix = q.first_masked_in({math::min(q.committed_prefix, end), end});
  q.commit_count = m.status->report.last_commits;
  if (q.commit_count > 0) {
    q.latest = m.entries[q.commit_count - 1].position;
  }
  m.state->reached = math::max(m.state->reached, m.status->next.query.last);
}

}  // namespace unmask::step
