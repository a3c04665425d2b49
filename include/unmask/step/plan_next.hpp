// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/beam.hpp>
#include <unmask/step/commit.hpp>
#include <unmask/step/drafts.hpp>
#include <unmask/step/gate.hpp>
#include <unmask/step/layers.hpp>
#include <unmask/step/reconsider.hpp>
#include <unmask/step/remask_least.hpp>

/// End of a step: ends the sequence, or plans and prepares the next forward pass.
namespace UNMASK_NAMESPACE::step::phase {

/// Lane 0: the final token of scored position i of a canvas, from its part's conclude(); if that
/// returns none, because no row of the position was valid, the token that an invalid row commits
/// elsewhere.
template <class Policy>
[[nodiscard]] UNMASK_HD token_id final_token(const slot_memory<Policy>& m, index_t i) {
  const index_t position = m.status->next.score.first + i;
  const token_id token = renoise(m, position, info_of(*m.state, m.status->next, position), true);
  return token == no_token ? proposal(m, i) : token;
}

/// Lane 0: writes the final token of scored position i of a canvas if it fits the tokens written
/// before it.
UNMASK_CALLS_HOST
template <class Policy, class Answer>
UNMASK_HD void
write_final(const slot_memory<Policy>& m, index_t i, token_id token, Answer* answer) {
  const index_t position = m.status->next.score.first + i;
  const bool is_in = answer->admits(serial{}, position, token);
  if (is_in) {
    answer->write(position, token);
    m.state->tokens[position] = token;
  }
  m.roles[i] = is_in ? role::passed : role::refused;
}

/// Lane 0: writes final tokens to a canvas that fit together, if a sequence has constraints:
/// by rank, and then, after a second read, those that were refused.
UNMASK_CALLS_HOST
template <class Policy, class Answer>
UNMASK_HD void conclude_by_rank([[maybe_unused]] const slot_memory<Policy>& m,
                                [[maybe_unused]] range canvas,
                                [[maybe_unused]] Answer* answer) {
  if constexpr (!std::is_same_v<Answer, no_constraints>) {
    const index_t count = candidates(m);
    const index_t visits = count + canvas.size();
    for (index_t i = 0; i < canvas.size(); ++i) {
      m.roles[i] = role::inactive;
    }
    for (index_t n = 0; n < visits; ++n) {
      const index_t i = ranked_first(m, count, n);
      if (m.roles[i] == role::inactive && m.marks[canvas.first + i] == mark::masked) {
        write_final(m, i, final_token(m, i), answer);
      }
    }
    for (index_t n = 0; n < visits; ++n) {
      const index_t i = ranked_first(m, count, n);
      if (m.roles[i] == role::refused && (n < count || m.ranks[i] < 0)) {  // once
        read_row_again(m, i, answer);
        write_final(m, i, m.row(i).valid() ? final_token(m, i) : proposal(m, i), answer);
      }
    }
  }
}

/// Lane 0: commits the final tokens of a canvas.
UNMASK_CALLS_HOST
template <class Policy, class Answer>
UNMASK_HD void conclude(const slot_memory<Policy>& m, range canvas, Answer* answer) {
  sequence_view& q = m.state->view;
  --q.step;
  const bool is_constrained = phase::is_constrained(answer);
  if (is_constrained) {
    conclude_by_rank(m, canvas, answer);
  }
  for (index_t p = canvas.first; p < canvas.last; ++p) {
    if (m.marks[p] == mark::masked) {
      const index_t i = p - canvas.first;
      commit_token(m,
                   p,
                   is_constrained ? m.state->tokens[p] : final_token(m, i),
                   m.row(i).valid() ? m.row(i).log_probability() : -math::infinity());
    }
  }
  ++q.step;
  q.committed_prefix = q.length;
}

/// Lane 0: writes the EOS token to every position still masked, so that an ended sequence has no
/// mask. If this step remasked the position, it is reported with the EOS token.
template <class Policy>
UNMASK_HD void fill(const slot_memory<Policy>& m) {
  slot_state& s = *m.state;
  if (s.model.eos_token == no_token) {
    return;
  }
  if constexpr (Policy::rewrites) {
    for (index_t k = 0; k < m.status->report.last_commits; ++k) {
      commit_entry& e = m.entries[k];
      if (m.marks[e.position] == mark::masked) {
        e.token = s.model.eos_token;
        e.log_probability = 0.0F;
      }
    }
  }
  for (index_t p = s.view.committed_prefix; p < s.view.length; ++p) {
    if (m.marks[p] == mark::masked) {
      s.tokens[p] = s.model.eos_token;
      m.marks[p] = mark::committed;
    }
  }
  s.view.masked_count = 0;
  s.view.committed_prefix = s.view.length;
}

/// Lane 0: writes the EOS token after the end of a sequence that might have been longer.
template <class Policy>
UNMASK_HD void fill_rest([[maybe_unused]] const slot_memory<Policy>& m) {
  if constexpr (Policy::rewrites_blocks) {
    const slot_state& s = *m.state;
    const bool fills = s.model.eos_token != no_token;
    for (index_t p = s.view.length; fills && p < s.geometry.length; ++p) {
      s.tokens[p] = s.model.eos_token;
    }
  }
}

/// Lane 0: makes `next` the plan of the slot, and reports it.
UNMASK_HD inline void publish(const slot_arrays& m, const plan& next, index_t answer_end) {
  const sequence_view& q = m.state->view;
  slot_status& out = *m.status;
  if (next.branches > 0) {
    out.next = next;
  } else {  // for one thread of a device the places of branches are too much to copy
    static_cast<sequence_plan&>(out.next) = next;
    out.next.branches = 0;
    out.next.placed_last[0] = next.placed_last[0];
    out.next.branch_last[0] = next.branch_last[0];
  }
  out.report.end = next.end;
  out.report.forwards = q.step - m.spared();
  out.report.committed_prefix = q.committed_prefix;
  out.report.answer_end = answer_end;
  out.report.masked = q.masked_count;
}

/// Lane 0: clears the state of positions that a plan scores for the first time. If the window is
/// smaller than the answer, their cells may have that of committed positions whose rows were read
/// after their commit, or of positions that a schedule has left masked; otherwise a part may have
/// read ahead.
template <class Policy>
UNMASK_HD void clear_cells(const slot_memory<Policy>& m, range score) {
  const sequence_shape& g = m.state->geometry;
  index_t& scored = m.state->scored;
  const bool shares_cells = scored > 0 && g.length - g.prompt_length > m.window;
  for (index_t p = math::max(scored, score.first); shares_cells && p < score.last; ++p) {
    m.reset(m.cell_of(p));
  }
  scored = math::max(scored, score.last);
}

/// Lane 0: ends the sequence or plans its next step; also plans the first step.
UNMASK_CALLS_HOST
template <class Policy, class Answer>
UNMASK_HD void plan_next(const slot_memory<Policy>& m, [[maybe_unused]] Answer* answer) {
  slot_state& s = *m.state;
  const sequence_view& q = s.view;
  close_view(m);
  const step_info at = info_of(s);
  const bool is_over = s.model.suppress_mask && q.step >= s.bounds.forwards;

  index_t end_of_answer = q.length;
  plan next;
  next.started = true;
  next.end = stop(m, at);
  if (next.end == ending::running && is_over && q.masked_count > 0) {
    next.end = ending::max_steps;
  }
  if constexpr (Policy::reconsiders) {
    if (next.end == ending::running && !is_over && reconsiders_now(m) &&
        apart<Policy>([&] { return plan_hiding(m, next); })) {
      return publish(m, next, end_of_answer);
    }
  }
  if (next.end != ending::running) {
    apart<Policy>([&] {
      when<active_parts::beams_now>(m, [](const auto& slot) { end_beam(slot); });
      // A canvas that ends before its first step has no rows.
      if (!renoises_now(m) || q.step == 0) {
        end_of_answer = answer_end(m, next.end);
        fill(m);
      } else if constexpr (Policy::renoises) {
        conclude(m, m.status->next.score, answer);
        end_of_answer = answer_end(m, next.end);
      }
    });
  } else if (q.masked_count == 0 && (!paces_now(m) || is_over) && (is_over || !goes_on(m, at))) {
    next.end = ending::complete;
  } else {
    next.query = {0, q.length};
    next.kind = planned_kind(m);
    next.logits_shift = s.model.logits_shift;
    when<active_parts::beams_now>(m, [](const auto& slot) { stand_best(slot, true); });
    schedule(m, next, at);
    next.keys = next.keys.empty() ? next.query : next.keys;
    set_query(m, next, at);
    masked_blocks(m, next);
    clear_cells(m, next.score);
    when<active_parts::beams_now>(m, [&next](const auto& slot) {
      stand_best(slot, false);
      if (next.end != ending::running) {
        end_beam(slot);
      }
      place_members(slot, next);
    });
    if (next.end != ending::running && next.end != ending::complete) {
      apart<Policy>([&] {
        end_of_answer = answer_end(m, next.end);
        if (next.end == ending::eos_token || next.end == ending::stop_tokens) {
          fill(m);
        }
      });
    }
    if constexpr (Policy::shadows) {
      next.shadow = shadows_now(m) ? next.score : range{};
    }
    if constexpr (Policy::branches) {
      next.branch_last[0] = next.score.last;
    }
  }
  when<active_parts::drafts_now>(m, [&next](const auto& slot) { keep_drafts(slot, next); });
  if constexpr (Policy::branches) {
    next.winner = s.winner;
  }
  if (next.end != ending::running && next.end != ending::cancelled) {  // which a replay ends with
    apart<Policy>([&] { fill_rest(m); });
    when<active_parts::rewrites_blocks_now>(m, [&](const auto&) { next.query = {0, q.length}; });
  }
  publish(m, next, end_of_answer);
}

/// Determines the rows that the next step reads, from the first to the last, and the positions that
/// enter its pass through the layers. The rest of the step does not read the rows.
template <class Policy>
UNMASK_HD void want_rows(const deciding_group auto& t, const slot_memory<Policy>& m) {
  plan& next = m.status->next;
  const index_t shift = next.logits_shift;
  if (t.lane() == 0) {
    const index_t none = next.active() ? math::max(next.score.last - shift, index_t{0}) : 0;
    m.status->rows = {none, none};
    m.status->shadow_rows = {none, none};
  }
  if (!next.active()) {
    return;
  }
  if (layered_now(m)) {
    apart<Policy>([&] { enter_layers(t, m); });
  }
  const index_t size = m.read_range().size();
  const auto row_of = [&](index_t i) {
    return math::max(next.score.first + i - shift, index_t{0});
  };
  const auto list = [&](range& rows, const auto& reads) {
    static_cast<void>(with_first(t, size, reads, [&](index_t i) { rows.first = row_of(i); }));
    static_cast<void>(with_first(
        t,
        size,
        [&](index_t k) { return reads(size - 1 - k); },
        [&](index_t k) { rows.last = row_of(size - 1 - k) + 1; }));
  };
  if constexpr (Policy::shadows) {
    if (!next.shadow.empty()) {
      list(m.status->shadow_rows, [&](index_t i) { return m.reads_in(1, i); });
      list(m.status->rows, [&](index_t i) { return m.reads_in(0, i); });
      if (t.lane() == 0 && m.status->shadow_rows.empty()) {
        next.shadow = {};  // nothing is committed there
      }
      return;
    }
  }
  list(m.status->rows, [&](index_t i) { return m.reads(i); });
}

/// Lists, for each position that the next step reads, the tokens that the read excludes.
template <class Policy>
UNMASK_HD void prepare_reads(const auto& t, const slot_memory<Policy>& m) {
  if constexpr (slot_memory<Policy>::tracks) {
    const plan& next = m.status->next;
    if (!next.active() || m.tracked_places() == 0) {
      return;
    }
    for (index_t i = t.lane(); i < m.read_range().size(); i += t.lanes()) {
      for (index_t k = 0; k < (is_probe_now(m) ? m.needs.probes : 0); ++k) {
        m.probed[i * m.needs.probes + k].token = no_token;
      }
      if (!m.reads(i)) {
        continue;
      }
      const index_t position = next.score.first + i;
      tracked_list list{m.tracked_of(i), m.tracked_places() - 1};
      for (index_t k = 0; k < m.state->suppressed_count; ++k) {
        list.add(m.suppressed[k]);
      }
      if (names_tokens_now(m)) {
        apart<Policy>([&] {
          const step_info at = info_of(*m.state, next, position);
          if (m.marks[position] == mark::masked) {
            track<mark::masked>(m, list, m.cell_of(position), at);
          } else {
            track<mark::committed>(m, list, m.cell_of(position), at);
          }
        });
      }
      if (tracks_current_now(m) && m.marks[position] != mark::masked) {
        list.add(m.state->tokens[position]);
      }
      if constexpr (Policy::branches) {
        const index_t placed = next.placed(next.branches).last;
        for (index_t k = 0; k < (reads_sequence_now(m) ? placed : 0); ++k) {
          list.add(next.branch[k].token);
        }
      }
      m.tracked_count[i] = list.size();
    }
  }
}

}  // namespace unmask::step::phase
