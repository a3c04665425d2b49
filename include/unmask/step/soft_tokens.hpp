// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/slot.hpp>

/// Soft tokens: the most probable tokens of rows whose positions stay masked, for engines that feed
/// such a position with a mixture of embeddings.
namespace UNMASK_NAMESPACE::step {

/// The head of a row, as its read left it.
struct soft_row {
  held_tokens held;  ///< the untracked columns
  bool is_read = false;
};

/// The soft tokens of a sequence. Only if it asks for any (start_options::soft_tokens).
struct soft_rows {
  index_t count = 0;                          ///< tokens of a row
  index_t places = 0;                         ///< rows at most
  soft_row* rows = nullptr;                   ///< [places], by position - score.first
  token_probability* entries = nullptr;       ///< [places][count]; no_token: the row has fewer
  token_probability* alternatives = nullptr;  ///< room for as many
  /// After a step: the first of `entries` are those of positions that are still masked, and
  /// `alternatives` has those of positions that have a token now, both without gaps.
  index_t size = 0;
  index_t alternatives_size = 0;

  /// There was no step.
  UNMASK_HD void forget() {
    size = alternatives_size = 0;
    for (index_t i = 0; i < places; ++i) {
      rows[i].is_read = false;
    }
  }
  /// Parts the entries of a step in the two lists, by the marks that it left.
  UNMASK_HD void part(const mark* marks) {
    size = alternatives_size = 0;
    for (index_t i = 0; i < places; ++i) {
      const bool is_read = rows[i].is_read;
      rows[i].is_read = false;
      for (index_t k = 0; is_read && k < count; ++k) {
        const token_probability e = entries[std::ptrdiff_t{i} * count + k];
        if (e.token == no_token) {
          break;
        }
        if (marks[e.position] == mark::masked) {
          entries[size++] = e;
        } else {
          alternatives[alternatives_size++] = e;
        }
      }
    }
  }
};

namespace phase {

/// The first tokens of scored position i, whose row was read and edited, best first.
template <class Policy>
UNMASK_HD void soften_row(const slot_memory<Policy>& m, index_t i) {
  const record<Policy::required>& row = m.row(i);
  held_tokens& held = m.soft->rows[i].held;
  const tracked_logits w = m.kept_apart(0, i);
  for (index_t k = 0; k < w.count; ++k) {
    if (find_token(w.suppressed, w.suppressed_count, w.tokens[k]) < 0) {
      held.push(w.logits[k], w.tokens[k]);
    }
  }
  token_probability* const out = m.soft->entries + std::ptrdiff_t{i} * m.soft->count;
  float sum = 0.0F;
  index_t next = 0;
  const auto put = [&](token_id token, float logit) {
    out[next].token = token;
    out[next].probability =
        math::divide(math::exp_nonpositive(math::min(logit - row.best, 0.0F)), 1.0F + row.rest);
    sum += out[next].probability;
    ++next;
  };
  for (index_t k = 0; k < m.soft->count; ++k) {
    out[k] = {m.slot, m.status->next.score.first + i, no_token, m.state->view.step};
  }
  if (!row.valid() || held.size() == 0) {
    return;
  }
  put(row.token, row.best);  // an edit may have raised it, although it is not tracked
  for (index_t k = 0; k < held.size() && next < m.soft->count; ++k) {
    if (held[k].token != row.token) {
      put(held[k].token, held[k].logit);
    }
  }
  for (index_t k = 0; k < next; ++k) {
    out[k].share = math::divide(out[k].probability, sum);
  }
}

/// The parts have left only the tracked tokens of the row of scored position i.
UNMASK_HD inline void forget_untracked(const slot_arrays& m, index_t i) {
  if (m.soft != nullptr) {
    m.soft->rows[i].held.clear();
  }
}

/// Computes the soft tokens of the masked positions whose rows were read, before the step decides.
template <class Policy>
UNMASK_HD void soften(const auto& t, const slot_memory<Policy>& m) {
  for (index_t i = t.lane(); i < m.status->next.score.size(); i += t.lanes()) {
    if (m.soft->rows[i].is_read) {
      soften_row(m, i);
    }
  }
}

}  // namespace phase

}  // namespace unmask::step
