// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/gate.hpp>

/// Writes of a step: the progress guarantee, commits, rewrites of committed tokens, the next
/// canvas. Distributed over the lanes, and reported in position order.
namespace UNMASK_NAMESPACE::step::phase {

/// The bit of plan::forced for scored position i.
[[nodiscard]] UNMASK_HD inline std::uint64_t bit_of(const slot_arrays& m, index_t i) {
  const plan& now = m.status->next;
  return std::uint64_t{1} << (block_of(m.state->view, now, now.score.first + i) - now.first_block);
}

/// True while a commit rule may leave a step without a commit.
template <class Policy>
[[nodiscard]] UNMASK_HD bool may_wait(const slot_memory<Policy>& m) {
  return m.state->view.step < m.state->bounds.waits;
}

/// Progress guarantee: each forced block without a commit commits its best candidate or, if all its
/// rows are invalid, its first masked position; an excluded position only if no block has any
/// other. A schedule that does not set plan::end itself cannot plan a step without commits: if no
/// block commits anything, the best candidate of all blocks is committed.
template <class Policy>
UNMASK_HD void
ensure_progress(const deciding_group auto& t, const slot_memory<Policy>& m, index_t count) {
  if (is_pass<pass_kind::canvas>(m) || may_wait(m)) {
    return;
  }
  const plan& now = m.status->next;
  const index_t size = now.score.size();
  std::uint64_t own = 0;
  for (index_t i = t.lane(); i < size; i += t.lanes()) {
    own |= is_accepted(m.roles[i]) ? bit_of(m, i) : 0;
  }
  std::uint64_t served = t.any(own);
  // Positions in rank order, then those without a rank.
  const auto ranked = [&](index_t r) { return r < count ? key_index(m.keys[r]) : r - count; };
  const auto force_commit = [&](index_t i) {
    m.roles[i] = role::forced;
    m.note_forced(i);
    m.status->report.forced += writes(m, i) ? 1 : 0;
  };
  const auto serve = [&](std::uint64_t blocks) {
    const auto is_of_blocks = [&](index_t r) {
      const index_t i = ranked(r);
      return (r < count || m.roles[i] == role::invalid) && (bit_of(m, i) & blocks) != 0;
    };
    const bool is_served =
        with_first(t, count + size, is_of_blocks, [&](index_t r) { force_commit(ranked(r)); });
    served |= is_served ? blocks : 0;
    t.sync();  // the report is another lane's next
  };
  for (std::uint64_t left = now.forced & ~served; left != 0; left &= left - 1) {
    serve(left & (~left + 1));
  }
  constexpr bool paces = stages<Policy>::paces > 0;
  const std::uint64_t due = paces ? now.forced : ~std::uint64_t{0};
  if (!paces && served == 0 && m.status->report.last_commits == 0) {
    serve(due);
  }
  if constexpr (filters_any<Policy>) {
    if (served == 0) {
      const auto is_excluded = [&](index_t i) {
        return m.roles[i] == role::excluded && (due & bit_of(m, i)) != 0;
      };
      static_cast<void>(with_first(t, size, is_excluded, force_commit));
      t.sync();
    }
  }
}

/// Commits the best of the remaining candidates, and then positions without a rank, until more
/// positions are committed than remasked.
template <class Policy>
UNMASK_HD void
commit_more_than_remask(const deciding_group auto& t, const slot_memory<Policy>& m, index_t count) {
  const range scored = m.status->next.score;
  index_t wanted = 1;
  index_t forced = 0;
  for_each_in_rounds(t, scored.size(), [&](index_t i, bool is_there) {
    const bool competes = is_there && m.roles[i] != role::inactive;
    wanted += t.count(competes && m.marks[scored.first + i] == mark::committed).all;
    wanted -= t.count(competes && is_accepted(m.roles[i])).all;
  });
  while_in_rounds(t, count + scored.size(), [&](index_t r, bool is_there) {
    const index_t i = !is_there ? 0 : r < count ? key_index(m.keys[r]) : r - count;
    const bool competes = r < count ? !is_accepted(m.roles[i])
                                    : m.roles[i] == role::invalid || m.roles[i] == role::excluded;
    const lane_count left = t.count(is_there && competes);
    const bool is_taken = is_there && competes && left.before < wanted;
    if (is_taken) {
      m.roles[i] = role::forced;
      m.note_forced(i);
    }
    forced += t.count(is_taken && writes(m, i)).all;
    wanted -= left.all;
    return wanted > 0;
  });
  if (t.lane() == 0) {
    m.status->report.forced += forced;
  }
  t.sync();  // lanes have set the roles of positions that others read
}

/// Softmax probability of a committed position's token by its record; NaN if it was not tracked.
template <class Policy>
[[nodiscard]] UNMASK_HD float
current_probability(const slot_memory<Policy>& m, const record<Policy::required>& row, index_t i) {
  if constexpr (Policy::tracks_current) {
    const tracked_logits w = m.kept_apart(winner_of(m), i);
    const index_t at =
        find_token(w.tokens, w.count, m.state->tokens[m.status->next.score.first + i]);
    if (at >= 0) {
      return math::divide(math::exp_nonpositive(math::min(w.logits[at] - row.best, 0.0F)),
                          row.total());
    }
  }
  return math::from_bits(0x7fc00000U);
}

/// Number of tokens that this step commits.
template <class Policy>
[[nodiscard]] UNMASK_HD index_t commits_of(const deciding_group auto& t,
                                           const slot_memory<Policy>& m) {
  index_t commits = m.status->report.last_commits;  // the winner's placement
  for_each_in_rounds(t, m.status->next.score.size(), [&](index_t i, bool is_there) {
    commits += t.count(is_there && wins(m, i)).all;
  });
  return commits;
}

/// Number of candidates of this step that were committed before: they are masked after it, or the
/// step commits them without a gain.
template <class Policy>
[[nodiscard]] UNMASK_HD index_t losses_of(const deciding_group auto& t,
                                          const slot_memory<Policy>& m) {
  index_t losses = 0;
  if constexpr (Policy::remasks) {
    const range scored = m.status->next.score;
    for_each_in_rounds(t, scored.size(), [&](index_t i, bool is_there) {
      const bool competed =
          is_there && m.roles[i] != role::inactive && m.marks[scored.first + i] == mark::committed;
      losses += t.count(competed).all;
    });
  } else {
    static_cast<void>(t);
    static_cast<void>(m);
  }
  return losses;
}

/// Sets the role of committed positions that a part replaces or remasks. In position order by lane
/// 0, because parts may count, and tests each with those before it.
template <class Policy>
UNMASK_HD void
edit_token(const deciding_group auto& t, const slot_memory<Policy>& m, auto* answer) {
  slot_state& s = *m.state;
  const range scored = m.status->next.score;
  const index_t commits = commits_of(t, m);
  // This number may be remasked at no cost; phase::remask_least() has counted its commits.
  index_t spare = remasks_least_now(m) ? 0 : commits - losses_of(t, m) - 1;
  for (index_t i = 0; t.lane() == 0 && i < scored.size(); ++i) {
    const bool has_row = m.reads(winner_of(m), i) && m.row(i).valid();
    if (m.roles[i] != role::inactive || m.marks[scored.first + i] != mark::committed ||
        !(has_row || forced_token(m, i) != no_token)) {
      continue;
    }
    const candidate<Policy::required> c = candidate_at(m, i);
    step_info at = info_of(s, m.status->next, c.position);
    at.commits = commits;
    at.current_probability = current_probability(m, m.row(i), i);
    at.may_remask = spare > 0 || s.remasked < s.bounds.remasked;
    const auto [v, part] = step::edit_token(m, c, at);
    m.note(i, {part});
    if (v == verdict::remask) {
      s.remasked += spare > 0 ? 0 : 1;
      spare -= spare > 0 ? 1 : 0;
    }
    m.roles[i] = v == verdict::replace  ? role::replaced
                 : v == verdict::remask ? role::remasked
                                        : role::inactive;
    if (has_gate<Policy>(answer) && m.roles[i] != role::inactive) {
      m.roles[i] = gate_of_edit(m, i, m.roles[i], answer);
    }
  }
  t.sync();
}

/// Collects the probe results of the step, without gaps.
template <class Policy>
UNMASK_HD void record_probe_results(const deciding_group auto& t, const slot_memory<Policy>& m) {
  index_t probe_results = 0;
  const index_t entries = m.status->next.score.size() * m.needs.probes;
  for_each_in_rounds(t, entries, [&](index_t n, bool is_there) {
    const bool is_answer = is_there && m.probed[n].token != no_token;
    const lane_count found = t.count(is_answer);
    if (is_answer) {
      m.probe_results[probe_results + found.before] = m.probed[n];
    }
    probe_results += found.all;
  });
  if (t.lane() == 0) {
    m.status->report.last_probabilities = probe_results;
  }
}

/// Lists of a step's report, as far as they are written.
struct written {
  index_t before = 0;  ///< entries of the step before its commits: 1 if a branch won
  index_t noted = 0;   ///< entries, those before included
  index_t traced = 0;
  index_t invalid = 0;
  index_t rewritten = 0;
  index_t opened = 0;
  commit_entry placed;    ///< with `before`: the entry of the branch
  index_t at_placed = 0;  ///< how many of the others are left of it
};

/// Lane 0: reports the written tokens.
UNMASK_HD inline void report_written(const slot_arrays& m, const written& w) {
  sequence_view& q = m.state->view;
  sequence_report& report = m.status->report;
  const index_t newly_committed = w.noted - w.before - w.rewritten;
  q.masked_count -= newly_committed - w.opened;
  q.changed += w.noted - w.before;
  q.new_commits = newly_committed + w.before;
  if (w.noted > w.before) {
    if (w.before > 0) {
      m.entries[w.at_placed] = w.placed;
    }
    q.first_changed = math::min(q.first_changed, m.entries[0].position);
  }
  report.committed += newly_committed;
  report.rewritten += w.rewritten;
  report.invalid_rows += w.invalid;
  report.last_commits = w.noted;
  report.last_candidates = w.traced;
}

/// Writes the committed tokens and the rewritten ones, and reports them in position order.
template <class Policy>
UNMASK_HD void commit(const deciding_group auto& t, const slot_memory<Policy>& m, auto* answer) {
  when<active_parts::rewrites_now>(m, [&](const auto& s) { edit_token(t, s, answer); });
  slot_state& s = *m.state;
  const range scored = m.status->next.score;
  written w;
  w.before = m.status->report.last_commits;
  w.noted = w.before;
  if (Policy::branches && w.before > 0) {
    w.placed = m.entries[0];  // written again after the first count
  }
  for_each_in_rounds(t, scored.size(), [&](index_t i, bool is_there) {
    const index_t position = scored.first + i;
    const outcome o = is_there ? outcome_of(m, i) : outcome::none;
    const bool competed = o != outcome::none && o < outcome::edited;
    const bool opens = o == outcome::loses || o == outcome::remasked;
    const bool rewrites = opens || o == outcome::rewins || o == outcome::edited;
    w.invalid += t.count(competed && !m.row(i).valid()).all;
    if (m.traced != nullptr) {
      const bool is_placed =
          Policy::branches && is_there && w.before > 0 && position == w.placed.position;
      const lane_count entries = t.count(is_placed || o != outcome::none);
      if (is_placed || o != outcome::none) {
        m.traced[w.traced + entries.before] = apart<Policy>(
            [&] { return is_placed ? branch_entry(m, w.placed) : candidate_entry_of(m, i, o); });
      }
      w.traced += entries.all;
    }
    const lane_count entries = t.count(rewrites || o == outcome::commits);
    if (rewrites || o == outcome::commits) {
      const token_id token = opens ? s.model.mask_token : proposal(m, i);
      const index_t skipped =
          Policy::branches && w.before > 0 && position < w.placed.position ? 1 : 0;
      m.entries[w.noted + entries.before - skipped] =
          entry_of(m, position, token, log_probability_of(candidate_at(m, i)), m.ranks[i]);
      s.tokens[position] = token;
      if (opens || o == outcome::commits) {
        m.marks[position] = opens ? mark::masked : mark::committed;
        m.reset(m.cell_of(position));
      }
    }
    w.noted += entries.all;
    if (Policy::branches && w.before > 0) {
      const bool is_entry = rewrites || o == outcome::commits;
      w.at_placed += t.count(is_entry && position < w.placed.position).all;
    }
    if (Policy::rewrites && rewrites_now(m)) {
      const lane_count changes = t.count(rewrites);
      if (rewrites && changes.before == 0 && w.rewritten == 0) {
        s.view.rewritten = position;
      }
      w.rewritten += changes.all;
      const lane_count opening = t.count(opens);
      if (opens && opening.before == 0 && w.opened == 0) {
        s.view.committed_prefix = math::min(s.view.committed_prefix, position);
      }
      w.opened += opening.all;
    }
  });
  t.sync();
  if (t.lane() == 0) {
    report_written(m, w);
  }
}

/// Writes the next canvas: accepted positions keep their drawn token, the others get noise.
template <class Policy>
UNMASK_HD void renoise(const deciding_group auto& t, const slot_memory<Policy>& m) {
  slot_state& s = *m.state;
  index_t traced = 0;
  index_t invalid = 0;
  index_t changed = 0;
  index_t accepted = 0;
  for_each_in_rounds(t, m.status->next.score.size(), [&](index_t i, bool is_there) {
    const bool is_candidate = is_there && m.roles[i] != role::inactive;
    accepted += t.count(is_candidate && is_accepted(m.roles[i])).all;
    invalid += t.count(is_candidate && !m.row(i).valid()).all;
    token_id token = no_token;
    bool changes = false;
    if (is_candidate) {
      const candidate<Policy::required> c = candidate_at(m, i);
      const step_info at = info_of(s, m.status->next, c.position);
      if (is_accepted(m.roles[i])) {
        token = proposal(m, i);
        absorb(m, c.position, at);
      } else {
        token = is_absorbed(m, i) ? c.current : renoise(m, c.position, at, false);
      }
      changes = token != c.current;
    }
    if (m.traced != nullptr) {
      const lane_count entries = t.count(is_candidate);
      if (is_candidate) {
        const bool stays = is_accepted(m.roles[i]);
        m.traced[traced + entries.before] =
            candidate_entry_of(m, i, stays ? outcome::commits : outcome::stays);
      }
      traced += entries.all;
    }
    if (is_candidate) {
      s.tokens[m.status->next.score.first + i] = token;
    }
    changed += t.count(changes).all;  // every lane has read the view
  });
  if (t.lane() == 0) {
    s.view.changed += changed;
    s.view.new_commits = accepted;
    m.status->report.invalid_rows += invalid;
    m.status->report.last_candidates = traced;
  }
}

}  // namespace unmask::step::phase
