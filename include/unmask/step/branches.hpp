// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/branch_record.hpp>
#include <unmask/step/read_inputs.hpp>
#include <unmask/step/writes.hpp>

/// Lookahead: selects the branch with which a step continues, and the branches that the next one
/// tries.
namespace UNMASK_NAMESPACE::step {

namespace branches {

/// Lookahead score of the row of scored position i in a branch, from the lookahead part.
template <class Policy>
[[nodiscard]] UNMASK_HD float lookahead_score(const slot_memory<Policy>& m,
                                              const record<Policy::required>& row,
                                              index_t position) {
  const auto& part = lookahead_of(m);
  constexpr statistics seen = std::remove_cvref_t<decltype(part)>::required;
  const auto c = candidate<Policy::required>::of(row, position, m.state->tokens[position]);
  return part.lookahead_score(c.template as<seen>());
}

/// True if the lookahead score of scored position i, masked in a branch, is among the lowest
/// `share` there. NaN is.
template <class Policy>
[[nodiscard]] UNMASK_HD bool
is_low(const slot_memory<Policy>& m, index_t branch, index_t i, float share) {
  const float* const lookahead_scores = m.lookahead_scores + branch * m.window;
  const bool* const is_masked = m.is_masked + branch * m.window;
  const float own = lookahead_scores[i];
  const index_t size = m.status->next.score.size();
  index_t masked = 0;
  index_t lower = 0;
  for (index_t j = 0; j < i; ++j) {  // equals left of it are lower
    masked += is_masked[j] ? 1 : 0;
    lower += is_masked[j] && lookahead_scores[j] <= own ? 1 : 0;
  }
  for (index_t j = i; j < size; ++j) {
    masked += is_masked[j] ? 1 : 0;
    lower += is_masked[j] && lookahead_scores[j] < own ? 1 : 0;
  }
  const index_t counted =
      math::max(static_cast<index_t>(static_cast<float>(masked) * share), index_t{1});
  return counted >= masked || lower < counted;
}

/// The mean of a branch's lowest lookahead scores, in position order. If no position of the scored
/// range is masked: the lookahead score with which the branch was created; 1 if the answer is
/// complete or with complete_wins. (The anchor always has a masked position: that of the branch's
/// token.)
template <class Policy>
[[nodiscard]] UNMASK_HD float
mean_lookahead_score(const slot_memory<Policy>& m, index_t branch, float creation) {
  const index_t from = branch * m.window;
  index_t counted = 0;
  float sum = 0.0F;
  for (index_t k = from; k < from + m.status->next.score.size(); ++k) {
    sum += m.is_low[k] ? m.lookahead_scores[k] : 0.0F;
    counted += m.is_low[k] ? 1 : 0;
  }
  if (counted > 0) {
    return math::divide(sum, static_cast<float>(counted));
  }
  const bool is_answer_complete = m.state->view.masked_count == 1;  // by the branch's token
  return is_answer_complete || lookahead_of(m).complete_wins ? 1.0F : creation;
}

/// Lane 0: makes the plan of the winning branch the plan of this step.
template <class Policy>
UNMASK_HD void adopt(const slot_memory<Policy>& m) {
  if constexpr (stages<Policy>::replans > 0) {
    plan& now = m.status->next;
    now.query.last -= now.score.last - now.branch_last[0];
    now.score.last = now.branch_last[0];
    if (m.state->winner > 0) {
      replan(m, now, info_of(*m.state), true);
      masked_blocks(m, now);
    }
  } else {
    static_cast<void>(m);
  }
}

/// Lane 0: lets the schedule set the scored range of each branch, and extends the plan to the
/// farthest.
template <class Policy>
UNMASK_HD void plan_branches(const slot_memory<Policy>& m) {
  plan& next = m.status->next;
  for (index_t b = 0; b <= next.branches; ++b) {
    next.branch_last[b] = next.score.last;
  }
  if constexpr (stages<Policy>::replans > 0) {
    slot_state& s = *m.state;
    for (index_t b = 1; b <= next.branches; ++b) {
      const placement& p = next.branch[b - 1];
      s.tokens[p.position] = p.token;
      m.marks[p.position] = mark::committed;
      --s.view.masked_count;
      plan own = next;
      replan(m, own, info_of(s), false);
      next.branch_last[b] = own.score.last;
      s.tokens[p.position] = s.model.mask_token;
      m.marks[p.position] = mark::masked;
      ++s.view.masked_count;
    }
    index_t farthest = next.score.last;
    for (index_t b = 1; b <= next.branches; ++b) {
      farthest = math::max(farthest, next.branch_last[b]);
    }
    if (farthest > next.score.last) {
      next.query.last += farthest - next.score.last;
      next.keys.last += farthest - next.score.last;
      next.score.last = farthest;
      m.status->rows.last = farthest - next.logits_shift;
    }
  }
}

}  // namespace branches

/// Continues with the best branch: computes the score of each from its own rows, selects the
/// highest, and commits the token with which it was created.
///
/// Order (select_branch): higher score; between equals the branch that was created first, the
/// anchor last (it has one token less). A branch with a NaN score cannot win; if all scores are
/// NaN, the anchor wins. Lookahead scores are computed in parallel, each sum in position order by
/// one lane, so that thread groups of any size give the same bits.
template <class Policy>
UNMASK_HD void select_winner(const auto& t, const slot_memory<Policy>& m) {
  const plan& now = m.status->next;
  const index_t count = 1 + now.branches;
  const index_t size = now.score.size();
  for (index_t k = t.lane(); k < count * size; k += t.lanes()) {
    const index_t b = k / size;
    const index_t i = k % size;
    const bool is_masked = m.decides(b, i);
    m.is_masked[b * m.window + i] = is_masked;
    m.is_low[b * m.window + i] = is_masked;
    if (is_masked) {
      revisable_row<Policy::required> row{m.row(b, i), m.kept_apart(b, i), draw_of(m, i)};
      m.lookahead_scores[b * m.window + i] =
          branches::lookahead_score(m, row.total(), now.score.first + i);
    }
  }
  t.sync();
  const float share = lookahead_of(m).lowest_share;
  if (share < 1.0F) {
    for (index_t k = t.lane(); k < count * size; k += t.lanes()) {
      const index_t b = k / size;
      const index_t i = k % size;
      const index_t at = b * m.window + i;
      m.is_low[at] = m.is_masked[at] && branches::is_low(m, b, i, share);
    }
    t.sync();
  }
  for (index_t b = t.lane(); b < count; b += t.lanes()) {
    const float creation = b == 0 ? 1.0F : now.branch[b - 1].lookahead_score;
    const float future = branches::mean_lookahead_score(m, b, creation);
    m.branch_scores[b] = lookahead_of(m).score_of_branch(creation, future);
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
      commit_token(m, p.position, p.token, p.log_probability);
      m.row(p.position - now.score.first) = record<Policy::required>::empty();  // it has none there
    }
    branches::adopt(m);
  }
  t.sync();
}

/// Places the tokens of the next branches: the candidates of the last step (`scored`) that are
/// still masked, will be scored and pass every filter, of highest lookahead score.
/// Ties: the lower position. Overwrites the keys, which the step no longer needs.
template <class Policy>
UNMASK_HD void create_branches(const auto& t, const slot_memory<Policy>& m, range scored) {
  plan& next = m.status->next;
  if (!next.active()) {
    return;
  }
  const token_id mask = m.state->model.mask_token;
  const index_t size = sort_size(scored.size());
  for (index_t i = t.lane(); i < size; i += t.lanes()) {
    m.keys[i] = no_key;
    const index_t position = scored.first + i;
    if (i >= scored.size() || !m.state->view.is_masked(position) ||
        !next.score.contains(position)) {
      continue;
    }
    // The row of a position that was just remasked was read while its token was committed.
    const bool was_committed = m.roles[i] == role::inactive || m.roles[i] == role::remasked;
    const auto c = candidate<Policy::required>::of(m.row(i), position, mask);
    if (!c.valid() || c.token == mask || was_committed || is_ranked_last(m, c)) {
      continue;
    }
    const float lookahead_score = branches::lookahead_score(m, m.row(i), position);
    m.keys[i] = math::is_nan(lookahead_score) ? no_key : order_key(lookahead_score, i);
  }
  const index_t wanted =
      math::min(math::min(lookahead_of(m).branches, max_branches), scored.size());
  sort_front(t, m.keys, size, wanted);
  for (index_t b = t.lane(); b < wanted; b += t.lanes()) {
    if (m.keys[b] != no_key) {
      const index_t i = key_index(m.keys[b]);
      const auto c = candidate<Policy::required>::of(m.row(i), scored.first + i, mask);
      next.branch[b] = {c.position, c.token, key_score(m.keys[b]), log_probability_of(c)};
    }
  }
  t.sync();
  if (t.lane() == 0) {
    next.branches = 0;
    while (next.branches < wanted && m.keys[next.branches] != no_key) {
      ++next.branches;
    }
    branches::plan_branches(m);
  }
  t.sync();
}

}  // namespace unmask::step
