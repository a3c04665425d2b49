// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/commit.hpp>
#include <unmask/step/layers.hpp>

/// End of a step: ends the sequence, or plans and prepares the next forward pass.
namespace UNMASK_NAMESPACE::step::phase {

/// Lane 0: writes the final tokens of a canvas from its part's conclude(); if it returns no token,
/// because no row of the position was valid, the token that an invalid row commits elsewhere.
template <class Policy>
UNMASK_HD void conclude(const slot_memory<Policy>& m, range canvas) {
  sequence_view& q = m.state->view;
  --q.step;
  for (index_t p = canvas.first; p < canvas.last; ++p) {
    if (m.marks[p] == mark::open) {
      const index_t i = p - canvas.first;
      const token_id token = renoise(m, p, info_of(*m.state, m.status->next, p), true);
      settle(m,
             p,
             token == no_token ? proposal(m, i) : token,
             m.row(i).valid() ? m.row(i).log_probability() : -math::infinity());
    }
  }
  ++q.step;
  q.settled = q.length;
}

/// Lane 0: writes the end token to every position still masked, so that an ended sequence has no
/// mask. If this step remasked the position, it is reported with the end token.
template <class Policy>
UNMASK_HD void fill(const slot_memory<Policy>& m) {
  slot_state& s = *m.state;
  if (s.model.end_token == no_token) {
    return;
  }
  if constexpr (Policy::revisits) {
    for (index_t k = 0; k < m.status->report.last_commits; ++k) {
      commit_entry& e = m.entries[k];
      if (m.marks[e.position] == mark::open) {
        e.token = s.model.end_token;
        e.log_probability = 0.0F;
      }
    }
  }
  for (index_t p = s.view.settled; p < s.view.length; ++p) {
    if (m.marks[p] == mark::open) {
      s.tokens[p] = s.model.end_token;
      m.marks[p] = mark::settled;
    }
  }
  s.view.open_count = 0;
  s.view.settled = s.view.length;
}

/// Lane 0: ends the sequence or plans its next step; also plans the first step.
template <class Policy>
UNMASK_HD void plan_next(const slot_memory<Policy>& m) {
  slot_state& s = *m.state;
  slot_status& out = *m.status;
  sequence_view& q = s.view;
  q.settled = q.first_open_in({q.settled, q.length});
  q.commit_count = out.report.last_commits;
  if (q.commit_count > 0) {
    q.latest = m.entries[q.commit_count - 1].position;
  }
  const step_info at = info_of(s);
  const bool is_over = s.model.suppress_mask && q.step >= most_forwards(*m.policy, s.geometry);
  s.reached = math::max(s.reached, out.next.feed.last);

  plan next;
  next.started = true;
  next.end = stop(m, at);
  if (next.end == ending::running && is_over && q.open_count > 0) {
    next.end = ending::step_budget;
  }
  if (next.end != ending::running) {
    if (Policy::settles || q.step == 0) {  // a canvas that ends before its first step has no rows
      fill(m);
    } else if constexpr (!Policy::settles) {
      conclude(m, out.next.score);
    }
  } else if (q.open_count == 0 && (stages<Policy>::paces == 0 || is_over)) {
    next.end = ending::complete;
  } else {
    next.feed = {0, q.length};
    schedule(m, next, at);
    next.attend = next.feed;
    feed(m, next, at);
    if (next.end == ending::end_token || next.end == ending::stop_tokens) {
      fill(m);
    }
    open_blocks(m, next);
    if constexpr (Policy::branches) {
      next.branch_last[0] = next.score.last;
    }
  }
  if constexpr (Policy::branches) {
    next.winner = s.winner;
  }
  out.next = next;
  out.report.end = next.end;
  out.report.forwards = q.step;
  out.report.settled = q.settled;
  out.report.open = q.open_count;
}

/// Determines the rows that the next step reads, from the first to the last, and the positions that
/// enter its pass through the layers.
template <class Policy>
UNMASK_HD void want_rows(const deciding_team auto& t, const slot_memory<Policy>& m) {
  const plan& next = m.status->next;
  range& rows = m.status->rows;
  const index_t shift = m.state->model.row_shift;
  if (t.lane() == 0) {
    const index_t none = next.active() ? math::max(next.score.last - shift, index_t{0}) : 0;
    rows = {none, none};
  }
  if (!next.active()) {
    return;
  }
  enter_layers(t, m);
  t.sync();
  const index_t size = m.read_range().size();
  const auto row_of = [&](index_t i) {
    return math::max(next.score.first + i - shift, index_t{0});
  };
  static_cast<void>(with_first(
      t, size, [&](index_t i) { return m.reads(i); }, [&](index_t i) { rows.first = row_of(i); }));
  static_cast<void>(with_first(
      t,
      size,
      [&](index_t k) { return m.reads(size - 1 - k); },
      [&](index_t k) { rows.last = row_of(size - 1 - k) + 1; }));
  t.sync();
}

/// True if an active edit of the policy depends on the tokens around a position.
template <class Policy>
[[nodiscard]] UNMASK_HD bool reads_sequence_now(const Policy& p) {
  return detail::any_part_now<Policy, &part_traits::reads_sequence>(
      p, [](const auto& part) -> decltype(part.reads_sequence_now()) { return part.reads_sequence_now(); });
}

/// True if an active part reads the probability of committed tokens.
template <class Policy>
[[nodiscard]] UNMASK_HD bool watches_current_now(const Policy& p) {
  return detail::any_part_now<Policy, &part_traits::watches_current>(
      p, [](const auto& part) -> decltype(part.watches_current_now()) { return part.watches_current_now(); });
}

/// Lists, for each position that the next step reads, the tokens that the read excludes.
template <class Policy>
UNMASK_HD void arm(const auto& t, const slot_memory<Policy>& m) {
  if constexpr (slot_memory<Policy>::watches) {
    const plan& next = m.status->next;
    if (!next.active()) {
      return;
    }
    for (index_t i = t.lane(); i < m.read_range().size(); i += t.lanes()) {
      for (index_t k = 0; k < Policy::inquiries; ++k) {
        m.asked[i * Policy::inquiries + k].token = no_token;
      }
      if (!m.reads(i)) {
        continue;
      }
      const index_t position = next.score.first + i;
      watch_list list{m.watched_of(i), m.watch_capacity - 1};
      for (index_t k = 0; k < m.state->suppressed_count; ++k) {
        list.add(m.suppressed[k]);
      }
      const step_info at = info_of(*m.state, next, position);
      if (m.marks[position] == mark::open) {
        watch<mark::open>(m, list, m.cell_of(position), at);
      } else {
        watch<mark::settled>(m, list, m.cell_of(position), at);
        if (watches_current_now(*m.policy)) {
          list.add(m.state->tokens[position]);
        }
      }
      if constexpr (Policy::branches) {
        for (index_t b = 0; b < (reads_sequence_now(*m.policy) ? next.branches : 0); ++b) {
          list.add(next.branch[b].token);
        }
      }
      m.watched_count[i] = list.size();
    }
  }
}

}  // namespace unmask::step::phase
