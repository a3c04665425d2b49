// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/plan_next.hpp>
#include <unmask/step/review.hpp>

/// The step after the read of the logits: one implementation for every backend, run by one thread
/// group per slot.
///
/// Phases are separated by barriers that every lane reaches. Work of O(positions) is distributed
/// over the lanes, including lists, which are in position order. Lane 0 alone plans, computes sums
/// whose order matters (costs, reductions), and calls parts that may count (revisit).
namespace UNMASK_NAMESPACE::step {

/// Empties the lists of the step's report.
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

/// Clears the changes of the previous step, and selects the branch whose rows this step uses.
template <class Policy>
UNMASK_HD void elect(const auto& t, const slot_memory<Policy>& m) {
  if (t.lane() == 0) {
    m.state->view.changed = 0;
    m.state->view.rewritten = m.state->view.length;
    m.state->view.first_changed = m.state->view.length;
  }
  step::elect(t, m);
}

/// Edits the rows after their read, and stores what the next step needs of them.
template <class Policy>
UNMASK_HD void revise(const auto& t, const slot_memory<Policy>& m) {
  phase::revise(t, m);
  phase::remember(t, m);
}

/// Sorts the candidates and computes the sums over better-ranked ones. Returns their number.
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

/// Sets the role of each of `count` candidates, and ensures progress.
template <class Policy>
UNMASK_HD void admit(const auto& t, const slot_memory<Policy>& m, index_t count) {
  phase::admit(t, m, count);
  phase::keep_promise(t, m, count);
  phase::settle_more_than_open(t, m, count);
}

/// Collects probe results, and writes tokens: those of committed positions, or a new canvas.
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

/// Counts the step; ends the sequence, or plans the next step and the rows that it needs.
template <class Policy>
UNMASK_HD void plan(const auto& t, const slot_memory<Policy>& m) {
  if (t.lane() == 0) {
    ++m.state->view.step;
    phase::plan_next(m);
  }
  t.sync();
  phase::want_rows(t, m);
}

/// Prepares the inputs of the next read.
template <class Policy>
UNMASK_HD void arm(const auto& t, const slot_memory<Policy>& m) {
  phase::arm(t, m);
  t.sync();
}

}  // namespace step_phase

/// Decides one step of one slot from the records in m.records, and plans the next.
///
/// Cost: O(n log^2 n) exchanges for n scored positions, distributed over the thread group.
/// Allocates nothing and waits only at the group's barriers.
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

/// Masks the answer of a slot whose state, policy and suppressed tokens are already written, and
/// plans its first step. `editable` has a byte for each position, 1 = masked; null masks the whole
/// answer.
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
