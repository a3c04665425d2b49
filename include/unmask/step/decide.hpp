// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/elect.hpp>
#include <unmask/step/runs.hpp>

/// Everything after the read of the logits: one body for every backend, run by one team per slot.
///
///   elect -> revise -> rank -> survey -> admit -> keep the promise of progress -> commit -> stop -> schedule
///   -> spawn -> arm
///
/// Phases are separated by team barriers that every lane reaches. What is O(positions) is spread over
/// the lanes; what moves the sequence is done by lane 0, in position or rank order.
namespace UNMASK_NAMESPACE::step {

namespace phase {

/// The branch that this step goes on with; 0 without lookahead.
template <class Policy>
[[nodiscard]] UNMASK_HD index_t winner_of(const slot_memory<Policy>& m) {
  if constexpr (Policy::branches) {
    return m.state->winner;
  } else {
    static_cast<void>(m);
    return 0;
  }
}

/// Puts the watched tokens back into each row that was read, after the revising parts had their turn.
template <class Policy>
UNMASK_HD void revise(const auto& t, const slot_memory<Policy>& m) {
  if constexpr (slot_memory<Policy>::watches || stages<Policy>::revisions > 0) {
    const range score_range = m.status->next.score;
    for (index_t i = t.lane(); i < score_range.size(); i += t.lanes()) {
      if (!m.reads(winner_of(m), i)) {
        continue;
      }
      const index_t position = score_range.first + i;
      revisable_row<Policy::required> row{m.row(i), m.kept_apart(winner_of(m), i)};
      if (row.total().valid()) {
        const step_info at = info_of(*m.state, m.status->next, position);
        if (m.marks[position] == mark::open) {
          step::revise<mark::open>(m, row, position % m.window, at);
        } else {
          step::revise<mark::settled>(m, row, position % m.window, at);
        }
      }
      m.row(i) = row.total();
    }
    t.sync();
  }
}

/// Keeps what the next step has to know of the rows just read.
template <class Policy>
UNMASK_HD void remember(const auto& t, const slot_memory<Policy>& m) {
  if constexpr (Policy::compares) {
    const range score_range = m.status->next.score;
    for (index_t i = t.lane(); i < score_range.size(); i += t.lanes()) {
      const record<Policy::required>& row = m.row(i);
      if (m.decides(0, i)) {  // the cell of a settled position belongs to the next block
        previous_row& before = m.previous_rows[(score_range.first + i) % m.window];
        before.seen = row.valid();
        before.best = row.best;
        before.log_total = row.valid() ? math::log1p(row.rest) : 0.0F;
        if constexpr (provides_v<Policy::required, stat::second_moment>) {
          before.square = row.square;
        }
      }
    }
    t.sync();
  }
}

/// Folds the tallies over the candidates, in position order.
template <class Policy>
UNMASK_HD void survey(const auto& t, const slot_memory<Policy>& m) {
  if constexpr (stages<Policy>::surveys > 0) {
    if (t.lane() == 0) {
      *m.tallies = tallies_of<Policy>{};
      for (index_t i = 0; i < m.status->next.score.size(); ++i) {
        if (m.roles[i] == role::candidate || m.roles[i] == role::delayed) {
          const candidate<Policy::required> c = candidate_at(m, i);
          step::survey(m, c, info_of(*m.state, m.status->next, c.position));
        }
      }
    }
    t.sync();
  }
}

/// Gives each open position of the scored range its role and its key, and sorts the keys.
template <class Policy>
UNMASK_HD void rank(const auto& t, const slot_memory<Policy>& m) {
  const range score_range = m.status->next.score;
  const index_t size = sort_size(score_range.size());
  for (index_t i = t.lane(); i < size; i += t.lanes()) {
    m.keys[i] = no_key;
    if (i >= score_range.size()) {
      continue;
    }
    const index_t position = score_range.first + i;
    m.roles[i] = role::bystander;
    if (m.marks[position] != mark::open) {
      continue;
    }
    const step_info at = info_of(*m.state, m.status->next, position);
    m.roles[i] = m.row(i).valid() ? role::candidate : role::invalid;
    if (m.roles[i] == role::candidate) {
      const delay d = delay_at(m, i, at);
      const float s = d == delay::none ? score(m, candidate_at(m, i), at) : -math::infinity();
      m.keys[i] = order_key(s, i);
      m.roles[i] = d == delay::none ? role::candidate : d == delay::last ? role::delayed : role::refused;
    }
  }
  sort(t, m.keys, size);
}

/// Number of candidates: keys before the first no_key.
template <class Policy>
[[nodiscard]] UNMASK_HD index_t candidates(const slot_memory<Policy>& m) {
  index_t low = 0;
  index_t high = m.status->next.score.size();
  while (low < high) {
    const index_t middle = (low + high) / 2;
    if (m.keys[middle] == no_key) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

/// Sums the costs along the ranks, in rank order.
template <class Policy>
UNMASK_HD void spend(const auto& t, const slot_memory<Policy>& m, index_t count) {
  if constexpr (stages<Policy>::costs > 0) {
    if (t.lane() == 0) {
      float sum = 0.0F;
      float largest = -math::infinity();
      for (index_t r = 0; r < count; ++r) {
        m.cost_before[r] = sum;
        m.largest_before[r] = largest;
        const float c = cost(m, candidate_at(m, key_index(m.keys[r])));
        sum += c;
        largest = math::max(largest, c);
      }
    }
    t.sync();
  }
}

/// The score of the candidate at rank r.
template <class Policy>
[[nodiscard]] UNMASK_HD float score_at(const slot_memory<Policy>& m, index_t r) {
  return key_score(m.keys[r]);
}

/// Asks the admission about every candidate.
template <class Policy>
UNMASK_HD void admit(const auto& t, const slot_memory<Policy>& m, index_t count) {
  for (index_t r = t.lane(); r < count; r += t.lanes()) {
    const index_t i = key_index(m.keys[r]);
    if (m.roles[i] == role::refused) {
      continue;
    }
    const candidate<Policy::required> c = candidate_at(m, i);
    const step_info at = info_of(*m.state, m.status->next, c.position);
    standing s;
    s.rank = r;
    s.open = count;
    if constexpr (stages<Policy>::costs > 0) {
      s.cost_before = m.cost_before[r];
      s.largest_before = m.largest_before[r];
    }
    s.best_score = score_at(m, 0);
    s.score_before = r > 0 ? score_at(m, r - 1) : math::infinity();
    if constexpr (Policy::needs_runs) {
      s.run_rank = run_rank_of(m, i);
    }
    if (admits(m, c, s, at)) {
      m.roles[i] = role::admitted;
    }
  }
  t.sync();
}

/// The bit of plan::forced that scored position i answers to.
template <class Policy>
[[nodiscard]] UNMASK_HD std::uint64_t bit_of(const slot_memory<Policy>& m, index_t i) {
  const plan& now = m.status->next;
  return std::uint64_t{1} << (block_of(m.state->view, now, now.score.first + i) - now.first_block);
}

/// The lowest token that may be proposed: what an invalid row without any finite logit commits.
template <class Policy>
[[nodiscard]] UNMASK_HD token_id lowest_allowed(const slot_memory<Policy>& m) {
  token_id v = 0;
  for (index_t k = 0; k < m.state->suppressed_count && m.suppressed[k] == v; ++k) {
    ++v;
  }
  return v;
}

/// The token that scored position i commits to if it is admitted.
template <class Policy>
[[nodiscard]] UNMASK_HD token_id proposal(const slot_memory<Policy>& m, index_t i) {
  const token_id token = candidate_at(m, i).token;
  return token == no_token ? lowest_allowed(m) : token;
}

/// Lane 0: each forced block in which nothing was admitted admits its best candidate; one whose rows
/// are all invalid, its first open position. Returns how many that were.
template <class Policy>
UNMASK_HD index_t keep_promise(const slot_memory<Policy>& m, index_t count) {
  if constexpr (Policy::may_wait || !Policy::settles) {
    return 0;
  } else {
    const plan& now = m.status->next;
    std::uint64_t served = 0;
    for (index_t i = 0; i < now.score.size(); ++i) {
      if (m.roles[i] == role::admitted) {
        served |= bit_of(m, i);
      }
    }
    index_t forced = 0;
    for (index_t r = 0; r < count + now.score.size(); ++r) {
      const index_t i = r < count ? key_index(m.keys[r]) : r - count;
      if (r >= count && m.roles[i] != role::invalid) {
        continue;
      }
      const std::uint64_t bit = bit_of(m, i);
      if ((now.forced & ~served & bit) != 0) {
        served |= bit;
        m.roles[i] = role::admitted;
        forced += proposal(m, i) == m.state->model.mask_token ? 0 : 1;  // that one commits nothing
      }
    }
    return forced;
  }
}

/// Softmax probability of the token that stands at a settled position whose record is `row`; NaN if it
/// was not watched.
template <class Policy>
[[nodiscard]] UNMASK_HD float current_probability(const slot_memory<Policy>& m,
                                                  const record<Policy::required>& row,
                                                  index_t i) {
  if constexpr (Policy::watches_current) {
    const watched_logits w = m.kept_apart(winner_of(m), i);
    const index_t at = find_token(w.tokens, w.count, m.state->tokens[m.status->next.score.first + i]);
    if (at >= 0) {
      return math::divide(math::exp_nonpositive(math::min(w.logits[at] - row.best, 0.0F)), row.total());
    }
  }
  return math::from_bits(0x7fc00000U);
}

/// Lane 0: how many tokens this step commits.
template <class Policy>
[[nodiscard]] UNMASK_HD index_t commits_of(const slot_memory<Policy>& m) {
  index_t commits = m.status->report.last_commits;  // the winner's placement
  for (index_t i = 0; i < m.status->next.score.size(); ++i) {
    const bool counts = m.roles[i] == role::admitted && proposal(m, i) != m.state->model.mask_token;
    commits += counts ? 1 : 0;
  }
  return commits;
}

/// Lane 0: asks the revisiting parts about a settled position and does what they say.
template <class Policy>
UNMASK_HD void rewrite(const slot_memory<Policy>& m, index_t i, index_t commits) {
  slot_state& s = *m.state;
  const candidate<Policy::required> c = candidate_at(m, i);
  if (!m.reads(winner_of(m), i) || m.marks[c.position] != mark::settled || !c.valid()) {
    return;
  }
  step_info at = info_of(s, m.status->next, c.position);
  at.commits = commits;
  at.current_probability = current_probability(m, m.row(i), i);
  const verdict v = revisit(m, c, at);
  const bool changes = v == verdict::reopen || (v == verdict::replace && c.token != c.current &&
                                                c.token != s.model.mask_token);
  if (!changes) {
    return;
  }
  s.view.rewritten = math::min(s.view.rewritten, c.position);
  if (v == verdict::replace) {
    s.tokens[c.position] = c.token;
    ++s.view.changed;
    ++m.status->report.rewritten;
    note(m, c.position, c.token, log_probability_of(c));
  } else {
    s.tokens[c.position] = s.model.mask_token;
    m.marks[c.position] = mark::open;
    m.reset(c.position % m.window);
    ++s.view.open_count;
    ++s.view.changed;
    ++m.status->report.rewritten;
    s.view.settled = math::min(s.view.settled, c.position);
    note(m, c.position, s.model.mask_token, log_probability_of(c));
  }
}

/// Lane 0: writes the admitted tokens and rewrites the revisited ones, in position order.
template <class Policy>
UNMASK_HD void commit(const slot_memory<Policy>& m) {
  slot_state& s = *m.state;
  sequence_report& report = m.status->report;
  const range score_range = m.status->next.score;
  const index_t commits = Policy::revisits ? commits_of(m) : 0;
  for (index_t i = 0; i < score_range.size(); ++i) {
    const index_t position = score_range.first + i;
    if (m.roles[i] == role::bystander) {
      if constexpr (Policy::revisits) {
        rewrite(m, i, commits);
      }
      continue;
    }
    report.invalid_rows += m.row(i).valid() ? 0 : 1;
    const candidate<Policy::required> c = candidate_at(m, i);
    const token_id token = proposal(m, i);
    // A proposed mask token, possible only where it is not suppressed, leaves the position open.
    const bool settles = m.roles[i] == role::admitted && token != s.model.mask_token;
    trace(m, i, token, settles);
    if (settles) {
      settle(m, position, token, log_probability_of(c));
    }
  }
}

/// Lane 0: writes the next canvas: admitted positions hold their token, the others noise.
template <class Policy>
UNMASK_HD void repaint(const slot_memory<Policy>& m) {
  slot_state& s = *m.state;
  for (index_t i = 0; i < m.status->next.score.size(); ++i) {
    if (m.roles[i] == role::bystander) {
      continue;
    }
    m.status->report.invalid_rows += m.row(i).valid() ? 0 : 1;
    const candidate<Policy::required> c = candidate_at(m, i);
    const step_info at = info_of(s, m.status->next, c.position);
    const token_id token =
        m.roles[i] == role::admitted ? c.token : renoise(m, c.position, at, false);
    trace(m, i, token, m.roles[i] == role::admitted);
    s.view.changed += token == c.current ? 0 : 1;
    s.tokens[c.position] = token;
  }
}

/// Lane 0: settles a canvas with what its part concludes.
template <class Policy>
UNMASK_HD void conclude(const slot_memory<Policy>& m, range canvas) {
  const step_info at = info_of(*m.state);
  for (index_t p = canvas.first; p < canvas.last; ++p) {
    if (m.marks[p] == mark::open) {
      settle(m, p, renoise(m, p, at, true), m.row(p - canvas.first).log_probability());
    }
  }
  m.state->view.settled = m.state->view.length;
}

/// Lane 0: gives every position still open the end token, so that an ended sequence holds no mask.
template <class Policy>
UNMASK_HD void fill(const slot_memory<Policy>& m) {
  slot_state& s = *m.state;
  if (s.model.end_token == no_token) {
    return;
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

/// Lane 0: ends the sequence or plans its next step. Also the first step's plan.
template <class Policy>
UNMASK_HD void plan_next(const slot_memory<Policy>& m) {
  slot_state& s = *m.state;
  slot_status& out = *m.status;
  sequence_view& q = s.view;
  while (q.settled < q.length && m.marks[q.settled] != mark::open) {
    ++q.settled;
  }
  const step_info at = info_of(s);

  plan next;
  next.started = true;
  next.end = stop(m, at);
  if (next.end != ending::running) {
    if constexpr (Policy::settles) {
      fill(m);
    } else {
      conclude(m, out.next.score);
    }
  } else if (q.open_count == 0 && stages<Policy>::paces == 0) {
    next.end = ending::complete;
  } else {
    next.feed = {0, q.length};
    schedule(m, next, at);
    if (next.end == ending::end_token || next.end == ending::stop_tokens) {
      fill(m);
    }
    for (index_t b = next.first_block; b < next.last_block; ++b) {
      const index_t cell = b % max_active_blocks;
      s.block_open[cell] = q.open_in(q.block(b));
      if (b >= s.blocks_seen) {
        s.block_step[cell] = q.step;
        s.block_opened[cell] = s.block_open[cell];
      }
    }
    s.blocks_seen = math::max(s.blocks_seen, next.last_block);
    out.next = next;
    range wanted = next.score;
    while (wanted.first < wanted.last && !m.reads(wanted.first - next.score.first)) {
      ++wanted.first;
    }
    while (wanted.first < wanted.last && !m.reads(wanted.last - 1 - next.score.first)) {
      --wanted.last;
    }
    const index_t shift = s.model.row_shift;
    out.rows = {math::max(wanted.first - shift, 0),
                wanted.empty() ? math::max(wanted.first - shift, 0)
                               : math::max(wanted.last - 1 - shift, 0) + 1};
  }
  if (next.end != ending::running) {
    out.rows = {0, 0};
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

/// Lists, for each position that the next step reads, the tokens its read leaves out.
template <class Policy>
UNMASK_HD void arm(const auto& t, const slot_memory<Policy>& m) {
  if constexpr (slot_memory<Policy>::watches) {
    const plan& next = m.status->next;
    if (!next.active()) {
      return;
    }
    for (index_t i = t.lane(); i < next.score.size(); i += t.lanes()) {
      if (!m.reads(i)) {
        continue;
      }
      const index_t position = next.score.first + i;
      watch_list list{m.watched + i * m.watch_capacity, m.watch_capacity};
      for (index_t k = 0; k < m.state->suppressed_count; ++k) {
        list.add(m.suppressed[k]);
      }
      const step_info at = info_of(*m.state, next, position);
      if (m.marks[position] == mark::open) {
        watch<mark::open>(m, list, position % m.window, at);
      } else {
        watch<mark::settled>(m, list, position % m.window, at);
        if constexpr (Policy::watches_current) {
          list.add(m.state->tokens[position]);
        }
      }
      if constexpr (Policy::branches && Policy::reads_sequence) {
        for (index_t b = 0; b < next.branches; ++b) {
          list.add(next.branch[b].token);
        }
      }
      m.watched_count[i] = list.size();
    }
  }
}

}  // namespace phase

/// Decides one step of one slot from the records in m.records, and plans the next.
///
/// O(n log^2 n) exchanges for n scored positions, spread over the team, and O(n) on lane 0.
/// Allocates nothing and waits for nothing but the team.
template <class Policy>
UNMASK_HD void decide(const auto& t, const slot_memory<Policy>& m) {
  if (!m.status->next.active()) {
    if (t.lane() == 0) {  // of this step, in which an ended sequence has none
      m.status->report.last_commits = 0;
      m.status->report.last_candidates = 0;
    }
    return;
  }
  if (t.lane() == 0) {
    m.status->report.last_commits = 0;
    m.status->report.last_candidates = 0;
    m.state->view.changed = 0;
    m.state->view.rewritten = m.state->view.length;
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
  if (t.lane() == 0) {
    const index_t forced = phase::keep_promise(m, count);
    m.status->report.forced += forced;
    if constexpr (Policy::settles) {
      phase::commit(m);
    } else {
      phase::repaint(m);
    }
    ++m.state->view.step;
    const range scored = m.status->next.score;
    phase::plan_next(m);
    spawn(m, scored);
  }
  t.sync();
  phase::arm(t, m);
  t.sync();
}

/// Opens the answer of a slot whose state, policy and suppressed tokens are written, and plans its
/// first step. `editable` has a byte for each position, 1 = open; null opens the whole answer.
template <class Policy>
UNMASK_HD void begin(const auto& t, const slot_memory<Policy>& m, const std::uint8_t* editable) {
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
    s.view.block_length = g.block_length;
    s.view.window = m.window;
    s.view.end_token = s.model.end_token;
    s.view.open_count = s.view.open_in({g.prompt, g.length});
    s.fallback_schedule = {};
    s.blocks_seen = 0;
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
  phase::arm(t, m);
  t.sync();
}

}  // namespace unmask::step
