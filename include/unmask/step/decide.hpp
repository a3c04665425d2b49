// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/plan_next.hpp>

/// Everything after the read of the logits: one body for every backend, run by one team per slot.
///
///   elect -> revise -> rank -> survey -> admit -> commit -> stop -> schedule -> spawn -> arm
///
/// Phases are separated by team barriers that every lane reaches. What is O(positions) is spread
/// over the lanes, lists included, whose order is that of positions. Lane 0 alone plans, adds up
/// what has to be added in order (costs, tallies), and asks parts that may count (revisit).
namespace UNMASK_NAMESPACE::step {

/// Empties the lists of the report, which are of this step.
template <class Policy>
UNMASK_HD void begin_report(const auto& t, const slot_memory<Policy>& m) {
  if (t.lane() == 0) {
    m.status->report.last_commits = 0;
    m.status->report.last_candidates = 0;
    m.status->report.last_probabilities = 0;
  }
}

/// Decides one step of one slot from the records in m.records, and plans the next.
///
/// O(n log^2 n) exchanges for n scored positions, spread over the team. Allocates nothing and waits
/// for nothing but the team.
template <class Policy>
UNMASK_HD void decide(const deciding_team auto& t, const slot_memory<Policy>& m) {
  begin_report(t, m);
  if (!m.status->next.active()) {
    return;
  }
  if (t.lane() == 0) {
    m.state->view.changed = 0;
    m.state->view.rewritten = m.state->view.length;
    m.state->view.first_changed = m.state->view.length;
  }
  elect(t, m);
  phase::revise(t, m);
  phase::remember(t, m);
  phase::rank(t, m);
  phase::survey(t, m);
  const index_t count = phase::candidates(m);
  place(t, m, count);
  phase::spend(t, m, count);
  phase::admit(t, m, count);
  phase::keep_promise(t, m, count);
  phase::settle_more_than_open(t, m, count);
  phase::answer(t, m);
  const range scored = m.status->next.score;
  if constexpr (Policy::settles) {
    phase::commit(t, m);
  } else {
    phase::repaint(t, m);
  }
  if (t.lane() == 0) {
    ++m.state->view.step;
    phase::plan_next(m);
  }
  t.sync();
  phase::want_rows(t, m);
  spawn(t, m, scored);
  phase::arm(t, m);
  t.sync();
}

/// Opens the answer of a slot whose state, policy and suppressed tokens are written, and plans its
/// first step. `editable` has a byte for each position, 1 = open; null opens the whole answer.
template <class Policy>
UNMASK_HD void
begin(const deciding_team auto& t, const slot_memory<Policy>& m, const std::uint8_t* editable) {
  slot_state& s = *m.state;
  const layout& g = s.geometry;
  for (index_t p = t.lane(); p < g.length; p += t.lanes()) {
    const bool is_open = p >= g.prompt && (editable == nullptr || editable[p] != 0);
    m.marks[p] = is_open ? mark::open : mark::fixed;
    if (is_open) {
      s.tokens[p] = s.model.mask_token;
    }
  }
  for (index_t i = t.lane(); i < m.window; i += t.lanes()) {
    m.reset(i);
  }
  t.sync();
  if (t.lane() == 0) {
    *m.sequence = sequence_states<Policy>{};
    *m.tallies = tallies_of<Policy>{};
    m.status->report = {};
    s.view = {};
    s.view.tokens = s.tokens;
    s.view.marks = m.marks;
    s.view.prompt = g.prompt;
    s.view.length = g.length;
    s.view.rewritten = g.length;
    s.view.first_changed = g.length;
    s.view.commits = m.entries;
    s.view.block_length = g.block_length;
    s.view.window = m.window;
    s.view.end_token = s.model.end_token;
    s.view.open_count = s.view.open_in({g.prompt, g.length});
    s.fallback_schedule = {};
    s.blocks_seen = 0;
    s.reached = 0;
    m.status->next = {};
    forget_layers(m);
    if constexpr (!Policy::settles) {
      step_info at = info_of(s);
      at.step = -1;
      for (index_t p = g.prompt; p < g.length; ++p) {
        if (m.marks[p] == mark::open) {
          s.tokens[p] = renoise(m, p, at, false);
        }
      }
    }
    phase::plan_next(m);
  }
  t.sync();
  phase::want_rows(t, m);
  phase::arm(t, m);
  t.sync();
}

}  // namespace unmask::step
