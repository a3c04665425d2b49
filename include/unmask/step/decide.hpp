// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/plan_next.hpp>
#include <unmask/step/reconsider.hpp>
#include <unmask/step/remask_least.hpp>
#include <unmask/step/review.hpp>
#include <unmask/step/rewrite_block.hpp>
#include <unmask/step/verify.hpp>

/// The step after the read of the logits: one implementation for every backend, run by one thread
/// group per slot.
///
/// Phases are separated by barriers that every lane reaches: at the end of a phase, unless the next
/// one has one before it reads what other lanes wrote. From move_text() to plan() lane 0 works
/// alone, except for the constraints of a sequence. Work of O(positions) is distributed over the
/// lanes, including lists, which are in position order. Lane 0 alone plans, computes sums whose
/// order matters (costs, reductions), and calls parts that may count (edit_token).
namespace UNMASK_NAMESPACE::step {

/// Empties the lists of the step's report.
UNMASK_HD inline void begin_report(const auto& t, const slot_arrays& m) {
  if (t.lane() == 0) {
    m.status->report.last_commits = 0;
    m.status->report.last_candidates = 0;
    m.status->report.last_probabilities = 0;
    m.status->report.last_moved = -1;
  }
}

/// The phases of a step, in their order. Each reads and writes the slot's memory.
namespace step_phase {

/// Lane 0: clears the changes of the previous step.
UNMASK_HD inline void clear_changes(const slot_arrays& m) {
  m.state->view.changed = 0;
  m.state->view.rewritten = m.state->view.length;
  m.state->view.moved = m.state->view.length;
  m.state->view.first_changed = m.state->view.length;
}

/// Clears the changes of the previous step, and selects the branch whose rows this step uses: with
/// drafts, the sequence itself.
template <class Policy>
UNMASK_HD void select_winner(const auto& t, const slot_memory<Policy>& m) {
  if (t.lane() == 0) {
    clear_changes(m);
  }
  if constexpr (Policy::drafts) {
    begin_drafts(t, m);
  }
  when<active_parts::looks_ahead_now>(m, [&t](const auto& s) { step::select_winner(t, s); });
  when<active_parts::reconsiders_now>(m, [&t](const auto& s) { phase::swap_hidden(t, s, false); });
}

/// Edits the rows after their read, and stores what the next step needs of them.
template <class Policy>
UNMASK_HD void process(const auto& t, const slot_memory<Policy>& m) {
  if (phase::processes_rows(m)) {
    apart<Policy>([&] { phase::process(t, m); });
  }
  if (m.soft != nullptr) {
    apart<Policy>([&] { phase::soften(t, m); });
  }
  when<active_parts::compares_now>(m, [&t](const auto& s) { phase::store_previous_rows(t, s); });
}

/// Sorts the candidates and computes the sums over better-ranked ones; a schedule may end the
/// scored range before. Returns their number.
template <class Policy>
[[nodiscard]] UNMASK_HD index_t rank(const auto& t, const slot_memory<Policy>& m) {
  phase::rank(t, m);
  when<active_parts::reduces_now>(m, [&t](const auto& s) { phase::reduce(t, s); });
  when<active_parts::ends_blocks_now>(m, [&t](const auto& s) { phase::end_block(t, s); });
  when<active_parts::ranks_by_reduction_now>(m, [&t](const auto& s) { phase::rank(t, s); });
  when<active_parts::anchors_now>(m, [&t](const auto& s) { anchor(t, s); });
  const index_t count = phase::candidates(m);
  phase::store_ranks(t, m, count);
  when<active_parts::costs_now>(m, [&](const auto& s) { phase::add_up_costs(t, s, count); });
  return count;
}

/// Sets the role of each of `count` candidates, and ensures progress; or checks drafts.
template <class Policy>
UNMASK_HD void
apply_commit_rule(const deciding_group auto& t, const slot_memory<Policy>& m, index_t count) {
  if (in_pass<pass_kind::hiding>(m, [&t](const auto& s) { phase::reconsider(t, s); }) ||
      in_pass<pass_kind::checking>(m, [&t](const auto& s) { phase::verify(t, s); })) {
    return;
  }
  phase::apply_commit_rule(t, m, count);
  phase::ensure_progress(t, m, count);
  when<active_parts::remasks_now>(
      m, [&](const auto& s) { phase::commit_more_than_remask(t, s, count); });
  when<active_parts::drafts_now>(m, [&t](const auto& s) { keep_to_draft(t, s); });
}

/// Refuses accepted candidates that do not fit the candidates before them; then masks the
/// least certain.
template <class Policy>
UNMASK_HD void
gate(const deciding_group auto& t, const slot_memory<Policy>& m, index_t count, auto* answer) {
  const bool has_gate = phase::has_gate<Policy>(answer);
  if (has_gate) {
    apart<Policy>([&] { phase::gate(t, m, count, answer); });
  }
  when<active_parts::remasks_least_now>(m, [&t](const auto& s) { phase::remask_least(t, s); });
  if (has_gate) {
    apart<Policy>([&] { phase::gate_of_remasked(t, m, answer); });
  }
  when<active_parts::reconsiders_now>(m, [&t](const auto& s) { phase::hide_lowest(t, s); });
}

/// Decides each member of a beam, and selects those that continue. Returns true if they are
/// several; otherwise the step of the remaining member is decided next. Called if beams_now().
template <class Policy>
[[nodiscard]] UNMASK_HD bool spread_beam(const deciding_group auto& t,
                                         const slot_memory<Policy>& m) {
  const plan& now = m.status->next;
  if (t.lane() == 0) {
    m.beam->count = 0;
    m.beam->is_whole = false;
  }
  for (index_t b = 0; b <= now.branches; ++b) {
    if (t.lane() == 0) {
      m.state->winner = b;
      beams::stand(m, now.branch, now.placed(b), true);
    }
    t.sync();
    process(t, m);
    const index_t count = rank(t, m);
    phase::apply_commit_rule(t, m, count);
    if (t.lane() == 0) {
      beams::offer_successors(m, b, count);
      beams::stand(m, now.branch, now.placed(b), false);
    }
  }
  if (t.lane() == 0) {
    beams::select(m);
  }
  t.sync();
  const bool spreads = m.beam->members > 1;
  t.sync();
  return spreads;
}

/// Collects probe results, and writes the tokens of committed positions, or a new canvas.
template <class Policy>
UNMASK_HD void commit(const auto& t, const slot_memory<Policy>& m, auto* answer) {
  using now = active_parts;
  when<now::is_probe_now>(m, [&t](const auto& s) { phase::record_probe_results(t, s); });
  when<now::rewrites_blocks_now>(m, [&t](const auto& s) { phase::rewrite_block(t, s); });
  if (!in_pass<pass_kind::canvas>(m, [&t](const auto& s) { phase::renoise(t, s); })) {
    phase::commit(t, m, answer);
  }
  // Not the kind of the pass: lane 0 may be about to write the next plan.
  when<now::rewrites_blocks_now>(m, [&t](const auto& s) { phase::move_text(t, s); });
  when<now::reviews_now>(m, [&t](const auto& s) { phase::review(t, s); });
  if (beams_now(m) && t.lane() == 0) {
    m.state->view.new_commits += m.drafts->entry_count;
    put_back(m);
  }
}

/// Counts the step; ends the sequence, or plans the next step and the rows that it needs.
UNMASK_CALLS_HOST
template <class Policy, class Answer>
UNMASK_HD void plan(const auto& t, const slot_memory<Policy>& m, Answer* answer) {
  if (t.lane() == 0) {
    ++m.state->view.step;
    phase::plan_next(m, answer);
  }
  t.sync();
  phase::want_rows(t, m);
}

/// With drafts: true if the step has led to one, from whose rows the next step is to be decided,
/// and starts that step. Otherwise completes the report of the pass.
template <class Policy>
[[nodiscard]] UNMASK_HD bool has_reached_draft(const auto& t, const slot_memory<Policy>& m) {
  const bool has_reached = m.status->next.branches > 0;
  if (t.lane() == 0) {
    if (has_reached) {
      set_aside(m);
      clear_changes(m);
    } else {
      put_back(m);
    }
  }
  t.sync();
  if (has_reached) {
    begin_report(t, m);
  }
  return has_reached;
}

/// Prepares the inputs of the next read.
template <class Policy>
UNMASK_HD void prepare_reads(const auto& t, const slot_memory<Policy>& m) {
  phase::prepare_reads(t, m);
  t.sync();
}

}  // namespace step_phase

/// Decides a step from the rows of the winner, and plans the next. Returns the scored range.
template <class Policy, class Answer>
UNMASK_HD range decide_rows(const deciding_group auto& t,
                            const slot_memory<Policy>& m,
                            Answer* answer) {
  if (!beams_now(m)) {
    step_phase::process(t, m);
  }
  const index_t count = step_phase::rank(t, m);
  step_phase::apply_commit_rule(t, m, count);
  step_phase::gate(t, m, count, answer);
  const range scored = m.status->next.score;
  step_phase::commit(t, m, answer);
  if (phase::is_constrained(answer)) {
    apart<Policy>([&] { phase::place(t, m, answer); });
  }
  step_phase::plan(t, m, answer);
  return scored;
}

/// Decides one step of one slot from the records in m.records, with drafts perhaps several, and
/// plans the next. `answer` are the constraints of the sequence, or null.
///
/// Cost: O(n log^2 n) exchanges for n scored positions, distributed over the thread group.
/// Allocates nothing and waits only at the group's barriers.
template <class Policy, class Answer = no_constraints>
UNMASK_HD void
decide(const deciding_group auto& t, const slot_memory<Policy>& m, Answer* answer = nullptr) {
  begin_report(t, m);
  if (!m.status->next.active()) {
    return;
  }
  step_phase::select_winner(t, m);
  if constexpr (Policy::beams) {
    const auto plans_beam = [&] {
      if (!step_phase::spread_beam(t, m)) {
        return false;
      }
      step_phase::plan(t, m, answer);
      step_phase::prepare_reads(t, m);
      return true;
    };
    if (beams_now(m) && apart<Policy>(plans_beam)) {
      return;
    }
  }
  range scored;
  do {
    scored = decide_rows(t, m, answer);
  } while (drafts_now(m) && apart<Policy>([&] { return step_phase::has_reached_draft(t, m); }));
  when<active_parts::looks_ahead_now>(m, [&](const auto& s) { create_branches(t, s, scored); });
  when<active_parts::drafts_now>(m, [&](const auto& s) { create_drafts(t, s, scored); });
  step_phase::prepare_reads(t, m);
  when<active_parts::reconsiders_now>(m, [&t](const auto& s) { phase::swap_hidden(t, s, true); });
}

/// Lane 0: the view of a sequence that is about to begin, so long.
UNMASK_HD inline void begin_view(const slot_arrays& m, index_t length, index_t ends_from) {
  slot_state& s = *m.state;
  const sequence_shape& g = s.geometry;
  s.view.step = -1;
  s.view.tokens = s.tokens;
  s.view.marks = m.marks;
  s.view.prompt_length = g.prompt_length;
  s.view.length = length;
  s.view.rewritten = length;
  s.view.moved = length;
  s.view.first_changed = length;
  s.view.commits = m.entries;
  s.view.block_length = g.block_length;
  s.view.prompt_in_block = 0;
  s.view.window = m.window;
  s.view.eos_token = s.model.eos_token;
  s.view.ends_from = ends_from;
  s.view.mask_token = s.model.mask_token;
  s.view.masked_count = s.view.masked_in({g.prompt_length, length});
  if (m.drafts != nullptr) {
    *m.drafts = {};
  }
  if (m.beam != nullptr) {
    *m.beam = {};
  }
}

/// Masks the answer of a slot whose policy and suppressed tokens are already written, and whose
/// states, reductions and status are new ones, and plans its first step. `editable` has a mark for
/// each position; null masks the whole answer. `answer` are the constraints of the sequence, or
/// null.
template <class Policy, class Answer = no_constraints>
UNMASK_HD void begin(const deciding_group auto& t,
                     const slot_memory<Policy>& m,
                     const std::uint8_t* editable,
                     Answer* answer = nullptr) {
  slot_state& s = *m.state;
  const sequence_shape& g = s.geometry;
  if (t.lane() == 0) {
    s.bounds = {most_forwards(*m.policy, g),
                detail::most_waits(*m.policy, g),
                detail::most_remasked(*m.policy, g)};
    if constexpr (Policy::varies) {
      s.active = active_parts_of(*m.policy);
    }
  }
  for (index_t p = t.lane(); p < g.length; p += t.lanes()) {
    m.marks[p] = p < g.prompt_length   ? mark::fixed
                 : editable == nullptr ? mark::masked
                                       : static_cast<mark>(editable[p]);
    if (m.marks[p] == mark::masked) {
      s.tokens[p] = s.model.mask_token;
    }
    if (m.inserted != nullptr) {
      m.inserted[p] = false;
    }
  }
  for (index_t i = t.lane(); i < m.window; i += t.lanes()) {
    m.reset(i);
  }
  t.sync();
  if (t.lane() == 0) {
    begin_view(m, detail::policy_begin_length(*m.policy, g), phase::ends_from(answer));
    forget_layers(m);
    if constexpr (Policy::renoises) {
      const step_info at = info_of(s);
      for (index_t p = renoises_now(m) ? g.prompt_length : g.length; p < g.length; ++p) {
        if (m.marks[p] == mark::masked) {
          s.tokens[p] = renoise(m, p, at, false);
        }
      }
    }
  }
  if (phase::is_constrained(answer)) {
    phase::place(t, m, answer);
  }
  step_phase::plan(t, m, answer);
  step_phase::prepare_reads(t, m);
}

}  // namespace unmask::step
