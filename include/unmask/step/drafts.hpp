// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/outcome.hpp>

/// Drafts (policy/drafts.hpp): states that later steps may reach, which the next pass runs beside
/// the sequence, and the steps that are decided from their rows.
namespace UNMASK_NAMESPACE::step {

/// True if the rows of the pass of `now` are those that `next` requires, each of its own state.
[[nodiscard]] UNMASK_HD inline bool has_rows_of(const plan& now, const plan& next) {
  const auto same = [](const range& a, const range& b) {
    return a.first == b.first && a.last == b.last;
  };
  return same(now.query, next.query) && same(now.keys, next.keys) && same(now.score, next.score) &&
         now.refresh == next.refresh && now.evict == next.evict &&
         now.attention == next.attention && now.logits_shift == next.logits_shift;
}

/// Lane 0: the draft of the pass of `now` whose tokens are those committed since; 0 if there is
/// none. Written tokens are never rewritten, so that equal tokens are an equal state.
[[nodiscard]] UNMASK_HD inline index_t reached_draft(const slot_arrays& m, const plan& now) {
  const slot_state& s = *m.state;
  const index_t committed = m.drafts->masked - s.view.masked_count;
  index_t b = 1;
  while (b <= now.branches && now.placed(b).last != committed) {
    ++b;
  }
  for (index_t k = 0; b <= now.branches && k < committed; ++k) {
    const placement& p = now.branch[k];
    if (m.marks[p.position] != mark::committed || s.tokens[p.position] != p.token) {
      return 0;
    }
  }
  return b <= now.branches ? b : 0;
}

/// Lane 0: if the sequence has reached a draft of its last pass, whose rows are those that `next`
/// requires: leaves the drafts in `next`, so that the step that it plans is decided from them.
template <class Policy>
UNMASK_HD void keep_drafts(const slot_memory<Policy>& m, plan& next) {
  const plan& now = m.status->next;
  if (now.branches == 0 || !next.active() || !has_rows_of(now, next)) {
    return;
  }
  const index_t reached = reached_draft(m, now);
  if (reached == 0) {
    return;
  }
  m.state->winner = reached;
  ++m.drafts->spared;
  next.branches = now.branches;
  for (index_t k = 0; k < max_placed; ++k) {
    next.branch[k] = now.branch[k];
  }
  for (index_t b = 0; b < max_branches; ++b) {
    next.placed_last[b + 1] = now.placed_last[b + 1];
    next.branch_last[b + 1] = now.branch_last[b + 1];
  }
}

/// Begins the decision of a pass with the rows of the sequence itself.
template <class Policy>
UNMASK_HD void begin_drafts(const auto& t, const slot_memory<Policy>& m) {
  if (drafts_now(m)) {
    if (t.lane() == 0) {
      m.state->winner = 0;
    }
    t.sync();
  }
}

/// Lane 0: takes the tokens that a step wrote out of the report of the pass, ascending, until
/// put_back(). They are those of a draft or of a member of a beam, so that there is room.
UNMASK_HD inline void set_aside(const slot_arrays& m) {
  draft_state& d = *m.drafts;
  const auto insert = [](auto* list, index_t& size, const auto& entry) {
    index_t k = size++;
    for (; k > 0 && list[k - 1].position > entry.position; --k) {
      list[k] = list[k - 1];
    }
    list[k] = entry;
  };
  for (index_t k = 0; k < m.status->report.last_commits; ++k) {
    insert(d.entries, d.entry_count, m.entries[k]);
  }
  for (index_t k = 0; k < m.status->report.last_candidates; ++k) {
    if (m.traced[k].committed) {
      insert(d.traced, d.traced_count, m.traced[k]);
    }
  }
}

/// Lane 0: merges what was set aside into the report of the pass.
UNMASK_HD inline void put_back(const slot_arrays& m) {
  draft_state& d = *m.drafts;
  const auto merge = [](auto* list, index_t size, const auto* aside, index_t count) {
    index_t to = size + count;
    for (index_t k = count; k > 0; --k) {
      while (size > 0 && list[size - 1].position > aside[k - 1].position) {
        list[--to] = list[--size];
      }
      list[--to] = aside[k - 1];
    }
  };
  sequence_report& report = m.status->report;
  merge(m.entries, report.last_commits, d.entries, d.entry_count);
  merge(m.traced, report.last_candidates, d.traced, d.traced_count);
  report.last_commits += d.entry_count;
  report.last_candidates += d.traced_count;
  m.state->view.commit_count = report.last_commits;
  d.entry_count = 0;
  d.traced_count = 0;
}

/// The drafting part.
template <class Policy>
[[nodiscard]] UNMASK_HD const auto& drafting_of(const slot_memory<Policy>& m) {
  return m.policy->template part_at<detail::part_that<Policy, &part_traits::drafts>>();
}

/// With drafts that may be accepted in part: keeps a step to the largest draft that it commits
/// completely.
template <class Policy>
UNMASK_HD void keep_to_draft(const auto& t, const slot_memory<Policy>& m) {
  if (!drafting_of(m).partial) {
    return;
  }
  if (t.lane() == 0) {
    const plan& now = m.status->next;
    index_t draft = m.state->winner;
    index_t k = now.placed(draft).last;
    for (index_t b = draft + 1; b <= now.branches; ++b) {
      const auto is_committed = [&](const placement& p) {
        const index_t i = p.position - now.score.first;
        return is_accepted(m.roles[i]) && phase::proposal(m, i) == p.token;
      };
      while (k < now.placed(b).last && is_committed(now.branch[k])) {
        ++k;
      }
      draft = k == now.placed(b).last ? b : draft;
    }
    for (index_t i = 0; draft > m.state->winner && i < now.score.size(); ++i) {
      if (is_accepted(m.roles[i]) && !now.places(draft, now.score.first + i)) {
        m.status->report.forced -= m.roles[i] == role::forced && phase::writes(m, i) ? 1 : 0;
        m.roles[i] = role::candidate;
      }
    }
  }
  t.sync();
}

/// Places the tokens of the next drafts: the best-ranked candidates of the last step (`scored`)
/// that are still masked and will be scored. None of all of those, from which nothing would be left
/// to decide, unless a step may commit a part of its tokens only. By lane 0: there are few.
template <class Policy>
UNMASK_HD void create_drafts(const auto& t, const slot_memory<Policy>& m, range scored) {
  plan& next = m.status->next;
  if (!next.active()) {
    return;
  }
  if (t.lane() == 0) {
    const token_id mask = m.state->model.mask_token;
    const index_t tokens = drafting_of(m).tokens;
    const index_t wanted = math::min(drafting_of(m).branches, max_branches);
    const bool may_complete = drafting_of(m).partial;
    const index_t masked = m.state->view.masked_in(next.score);
    m.drafts->masked = m.state->view.masked_count;
    index_t placed = 0;
    for (index_t r = 0; r < scored.size() && m.keys[r] != no_key && next.branches < wanted &&
                        placed < max_placed && (placed + 1 < masked || may_complete);
         ++r) {
      const index_t i = key_index(m.keys[r]);
      const index_t position = scored.first + i;
      const auto c = candidate<Policy::required>::of(m.row(i), position, mask);
      if (m.roles[i] != role::candidate || !m.state->view.is_masked(position) ||
          !next.score.contains(position) || c.token == no_token || c.token == mask) {
        continue;
      }
      next.branch[placed++] = {position, c.token, key_score(m.keys[r]), log_probability_of(c)};
      if (placed % tokens == 0) {
        next.placed_last[++next.branches] = static_cast<unsigned char>(placed);
      }
    }
    for (index_t b = 0; b <= next.branches; ++b) {
      next.branch_last[b] = next.score.last;
    }
  }
  t.sync();
}

}  // namespace unmask::step
