// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/branch_record.hpp>
#include <unmask/step/position.hpp>

/// Lookahead: which branch a step goes on with, and which branches the next one tries.
namespace UNMASK_NAMESPACE::step {

namespace branches {

/// What the lookahead part thinks of the row of scored position i in a branch.
template <class Policy>
[[nodiscard]] UNMASK_HD float
worth(const slot_memory<Policy>& m, const record<Policy::required>& row, index_t position) {
  const auto& part = lookahead_of(m);
  constexpr statistics seen = std::remove_cvref_t<decltype(part)>::required;
  const auto c = candidate<Policy::required>::of(row, position, m.state->tokens[position]);
  return part.worth(c.template as<seen>());
}

/// The mean of a branch's lowest worths, in position order; 1 if nothing is left open.
template <class Policy>
[[nodiscard]] UNMASK_HD float mean_worth(const slot_memory<Policy>& m, index_t branch) {
  const index_t size = m.status->next.score.size();
  const float* const worths = m.worths + branch * m.window;
  index_t open = 0;
  for (index_t i = 0; i < size; ++i) {
    open += m.decides(branch, i) ? 1 : 0;
  }
  if (open == 0) {
    return 1.0F;
  }
  const float share = lookahead_of(m).lowest_share;
  const index_t counted =
      math::max(static_cast<index_t>(static_cast<float>(open) * share), index_t{1});
  float sum = 0.0F;
  for (index_t i = 0; i < size; ++i) {
    if (!m.decides(branch, i)) {
      continue;
    }
    index_t lower = 0;
    for (index_t j = 0; counted < open && j < size; ++j) {
      const bool below = worths[j] < worths[i] || (worths[j] == worths[i] && j < i);
      lower += m.decides(branch, j) && below ? 1 : 0;
    }
    sum += lower < counted ? worths[i] : 0.0F;
  }
  return math::divide(sum, static_cast<float>(counted));
}

/// Lane 0: makes the plan of the branch that won the plan of this step.
template <class Policy>
UNMASK_HD void adopt(const slot_memory<Policy>& m) {
  if constexpr (stages<Policy>::replans > 0) {
    plan& now = m.status->next;
    now.feed.last -= now.score.last - now.branch_last[0];
    now.score.last = now.branch_last[0];
    if (m.state->winner > 0) {
      static_cast<void>(replan(m, now, info_of(*m.state), true));
      open_blocks(m, now);
    }
  } else {
    static_cast<void>(m);
  }
}

/// Lane 0: asks the schedule how far each branch is scored, and widens the plan to the farthest.
template <class Policy>
UNMASK_HD void spread(const slot_memory<Policy>& m) {
  plan& next = m.status->next;
  for (index_t b = 0; b <= next.branches; ++b) {
    next.branch_last[b] = next.score.last;
  }
  if constexpr (stages<Policy>::replans > 0) {
    slot_state& s = *m.state;
    for (index_t b = 1; b <= next.branches; ++b) {
      const placement& p = next.branch[b - 1];
      s.tokens[p.position] = p.token;
      m.marks[p.position] = mark::settled;
      --s.view.open_count;
      plan own = next;
      static_cast<void>(replan(m, own, info_of(s), false));
      next.branch_last[b] = own.score.last;
      s.tokens[p.position] = s.model.mask_token;
      m.marks[p.position] = mark::open;
      ++s.view.open_count;
    }
    index_t farthest = next.score.last;
    for (index_t b = 1; b <= next.branches; ++b) {
      farthest = math::max(farthest, next.branch_last[b]);
    }
    if (farthest > next.score.last) {
      next.feed.last += farthest - next.score.last;
      next.attend.last += farthest - next.score.last;
      next.score.last = farthest;
      m.status->rows.last = math::max(farthest - 1 - s.model.row_shift, index_t{0}) + 1;
    }
  }
}

}  // namespace branches

/// Goes on with the best branch: scores each from its own rows, picks the highest, and commits the
/// token it was made with.
///
/// Order (select_branch): higher score; between equals the branch that was spawned first, the
/// anchor last (it has one token less). A branch with a NaN score is out; if all are, the anchor
/// wins. Worths are computed in parallel, each sum in position order by one lane, so that every
/// team gives the same bits.
template <class Policy>
UNMASK_HD void elect(const auto& t, const slot_memory<Policy>& m) {
  if constexpr (Policy::branches) {
    const plan& now = m.status->next;
    const index_t count = 1 + now.branches;
    const index_t size = now.score.size();
    for (index_t k = t.lane(); k < count * size; k += t.lanes()) {
      const index_t b = k / size;
      const index_t i = k % size;
      if (m.decides(b, i)) {
        revisable_row<Policy::required> row{m.row(b, i), m.kept_apart(b, i), draw_of(m, i)};
        m.worths[b * m.window + i] = branches::worth(m, row.total(), now.score.first + i);
      }
    }
    t.sync();
    for (index_t b = t.lane(); b < count; b += t.lanes()) {
      const float creation = b == 0 ? 1.0F : now.branch[b - 1].worth;
      m.branch_scores[b] = lookahead_of(m).score_of_branch(creation, branches::mean_worth(m, b));
    }
    t.sync();
    if (t.lane() == 0) {
      const auto& part = lookahead_of(m);
      const auto record_of = [&](index_t b) {
        const bool stands = b > 0 || part.anchor_competes || count == 1;
        return stands ? branch_record{m.branch_scores[b], 1, b > 0 ? 1 : 0} : branch_record{};
      };
      const index_t winner = part.anchor_wins ? 0 : select_branch(count, record_of);
      m.state->winner = winner;
      if (winner > 0) {
        const placement& p = now.branch[winner - 1];
        settle(m, p.position, p.token, p.log_probability);
      }
      branches::adopt(m);
    }
    t.sync();
  } else {
    static_cast<void>(t);
    static_cast<void>(m);
  }
}

/// Lane 0: places the next branches' tokens: the candidates of the last step (`scored`), still
/// open, still to be scored and not delayed, of highest worth; ties go to the lower position.
template <class Policy>
UNMASK_HD void spawn(const slot_memory<Policy>& m, range scored) {
  if constexpr (Policy::branches) {
    plan& next = m.status->next;
    next.branches = 0;
    if (!next.active()) {
      return;
    }
    const index_t wanted = math::min(lookahead_of(m).branches, max_branches);
    for (index_t i = 0; i < scored.size(); ++i) {
      const index_t position = scored.first + i;
      if (!m.state->view.is_open(position) || !next.score.contains(position)) {
        continue;
      }
      const auto c = candidate<Policy::required>::of(m.row(i), position, m.state->model.mask_token);
      if (!c.valid() || c.token == m.state->model.mask_token) {
        continue;
      }
      if (m.roles[i] == role::bystander || is_delayed(m, c)) {
        continue;  // the row of a position just reopened was read while it was settled
      }
      const placement p{
          position, c.token, branches::worth(m, m.row(i), position), log_probability_of(c)};
      index_t at = next.branches;
      while (at > 0 && next.branch[at - 1].worth < p.worth) {
        --at;
      }
      if (at >= wanted || math::is_nan(p.worth)) {
        continue;
      }
      next.branches = math::min(next.branches + 1, wanted);
      for (index_t k = next.branches - 1; k > at; --k) {
        next.branch[k] = next.branch[k - 1];
      }
      next.branch[at] = p;
    }
    branches::spread(m);
  } else {
    static_cast<void>(m);
    static_cast<void>(scored);
  }
}

}  // namespace unmask::step
