// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/rank.hpp>

/// What a step writes: the promise of progress, commits, second thoughts, the next canvas.
namespace UNMASK_NAMESPACE::step::phase {

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

/// Lane 0: each forced block in which nothing was admitted admits its best candidate; one whose
/// rows are all invalid, its first open position. A barred position only if no block has anything
/// else. Returns how many that were.
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
    if constexpr (delays_any<Policy>) {
      for (index_t i = 0; i < now.score.size() && served == 0; ++i) {
        if (m.roles[i] == role::barred && (now.forced & bit_of(m, i)) != 0) {
          served |= bit_of(m, i);
          m.roles[i] = role::admitted;
          ++forced;
        }
      }
    }
    return forced;
  }
}

/// Lane 0: admits the best of those that were not until more positions settle than are masked
/// again, as far as there are candidates.
template <class Policy>
UNMASK_HD void settle_more_than_open(const slot_memory<Policy>& m, index_t count) {
  if constexpr (Policy::remasks) {
    index_t wanted = 1;
    for (index_t i = 0; i < m.status->next.score.size(); ++i) {
      const bool again =
          m.roles[i] != role::bystander && m.marks[m.status->next.score.first + i] == mark::settled;
      wanted += (again ? 1 : 0) - (m.roles[i] == role::admitted ? 1 : 0);
    }
    for (index_t r = 0; r < count && wanted > 0; ++r) {
      role& of = m.roles[key_index(m.keys[r])];
      wanted -= of == role::admitted ? 0 : 1;
      of = role::admitted;
    }
  } else {
    static_cast<void>(m);
    static_cast<void>(count);
  }
}

/// Softmax probability of the token that stands at a settled position whose record is `row`; NaN if
/// it was not watched.
template <class Policy>
[[nodiscard]] UNMASK_HD float
current_probability(const slot_memory<Policy>& m, const record<Policy::required>& row, index_t i) {
  if constexpr (Policy::watches_current) {
    const watched_logits w = m.kept_apart(winner_of(m), i);
    const index_t at =
        find_token(w.tokens, w.count, m.state->tokens[m.status->next.score.first + i]);
    if (at >= 0) {
      return math::divide(math::exp_nonpositive(math::min(w.logits[at] - row.best, 0.0F)),
                          row.total());
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

/// Lane 0: writes the proposed token over a settled one, or the mask token, which opens it.
template <class Policy>
UNMASK_HD void
rewrite(const slot_memory<Policy>& m, const candidate<Policy::required>& c, verdict what) {
  slot_state& s = *m.state;
  const bool changes =
      what == verdict::reopen ||
      (what == verdict::replace && c.token != c.current && c.token != s.model.mask_token);
  if (!changes) {
    return;
  }
  s.view.rewritten = math::min(s.view.rewritten, c.position);
  s.view.first_changed = math::min(s.view.first_changed, c.position);
  ++s.view.changed;
  ++m.status->report.rewritten;
  const token_id token = what == verdict::replace ? c.token : s.model.mask_token;
  s.tokens[c.position] = token;
  if (what == verdict::reopen) {
    m.marks[c.position] = mark::open;
    m.reset(m.cell_of(c.position));
    ++s.view.open_count;
    s.view.settled = math::min(s.view.settled, c.position);
  }
  note(m, c.position, token, log_probability_of(c));
}

/// Lane 0: asks the revisiting parts about a settled position and does what they say.
template <class Policy>
UNMASK_HD void revisit(const slot_memory<Policy>& m, index_t i, index_t commits) {
  const candidate<Policy::required> c = candidate_at(m, i);
  if (!m.reads(winner_of(m), i) || m.marks[c.position] != mark::settled || !c.valid()) {
    return;
  }
  step_info at = info_of(*m.state, m.status->next, c.position);
  at.commits = commits;
  at.current_probability = current_probability(m, m.row(i), i);
  rewrite(m, c, step::revisit(m, c, at));
}

/// Lane 0: notes the answers of the step.
template <class Policy>
UNMASK_HD void answer(const slot_memory<Policy>& m) {
  if constexpr (Policy::inquiries > 0) {
    index_t& count = m.status->report.last_probabilities;
    for (index_t n = 0; n < m.status->next.score.size() * Policy::inquiries; ++n) {
      if (m.asked[n].token != no_token) {
        m.answers[count++] = m.asked[n];
      }
    }
  } else {
    static_cast<void>(m);
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
        revisit(m, i, commits);
      }
      continue;
    }
    if constexpr (Policy::remasks) {
      if (m.marks[position] == mark::settled) {
        const token_id token = proposal(m, i);
        const bool stays = m.roles[i] == role::admitted && token != s.model.mask_token;
        trace(m, i, token, stays);
        rewrite(m, candidate_at(m, i), stays ? verdict::replace : verdict::reopen);
        continue;
      }
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

}  // namespace unmask::step::phase
