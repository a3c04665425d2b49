// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/plan_next.hpp>
#include <unmask/step/review.hpp>

/// Everything after the read of the logits: one body for every backend, run by one team per slot.
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

/// The phases of a step, in their order. Each reads and writes the slot's memory.
namespace step_phase {

/// Forgets what changed in the step before, and takes up the rows that this step goes on with.
template <class Policy>
UNMASK_HD void elect(const auto& t, const slot_memory<Policy>& m) {
  if (t.lane() == 0) {
    m.state->view.changed = 0;
    m.state->view.rewritten = m.state->view.length;
    m.state->view.first_changed = m.state->view.length;
  }
  step::elect(t, m);
}

/// Edits the rows after their read, and keeps of them what the next step needs.
template <class Policy>
UNMASK_HD void revise(const auto& t, const slot_memory<Policy>& m) {
  phase::revise(t, m);
  phase::remember(t, m);
}

/// Sorts the candidates and adds up what comes before each. Returns how many there are.
template <class Policy>
[[nodiscard]] UNMASK_HD index_t rank(const auto& t, const slot_memory<Policy>& m) {
  phase::rank(t, m);
  phase::survey(t, m);
  anchor(t, m);
  const index_t count = phase::candidates(m);
  place(t, m, count);
  phase::spend(t, m, count);
  return count;
}

/// Gives each of `count` candidates its role, and makes sure that the step gets on.
template <class Policy>
UNMASK_HD void admit(const auto& t, const slot_memory<Policy>& m, index_t count) {
  phase::admit(t, m, count);
  phase::keep_promise(t, m, count);
  phase::settle_more_than_open(t, m, count);
}

/// Answers what parts ask, and writes tokens: those of the admitted, or a new canvas.
template <class Policy>
UNMASK_HD void commit(const auto& t, const slot_memory<Policy>& m) {
  phase::answer(t, m);
  if constexpr (Policy::settles) {
    phase::commit(t, m);
  } else {
    phase::repaint(t, m);
  }
  phase::review(t, m);
}

/// Counts the step; ends the sequence or plans the next one, and the rows that it wants.
template <class Policy>
UNMASK_HD void plan(const auto& t, const slot_memory<Policy>& m) {
  if (t.lane() == 0) {
    ++m.state->view.step;
    phase::plan_next(m);
  }
  t.sync();
  phase::want_rows(t, m);
}

/// Makes ready what the next read is given.
template <class Policy>
UNMASK_HD void arm(const auto& t, const slot_memory<Policy>& m) {
  phase::arm(t, m);
  t.sync();
}

}  // namespace step_phase

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
  step_phase::elect(t, m);
  step_phase::revise(t, m);
  const index_t count = step_phase::rank(t, m);
  step_phase::admit(t, m, count);
  const range scored = m.status->next.score;
  step_phase::commit(t, m);
  step_phase::plan(t, m);
  spawn(t, m, scored);
  step_phase::arm(t, m);
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
    s.view.step = -1;
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
      const step_info at = info_of(s);
      for (index_t p = g.prompt; p < g.length; ++p) {
        if (m.marks[p] == mark::open) {
          s.tokens[p] = renoise(m, p, at, false);
        }
      }
    }
  }
  step_phase::plan(t, m);
  step_phase::arm(t, m);
}

}  // namespace unmask::step
