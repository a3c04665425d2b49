// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/slot.hpp>

/// Soft tokens: the most probable tokens of rows whose positions stay masked, for engines that feed
/// such a position with a mixture of embeddings.
namespace UNMASK_NAMESPACE::step {

/// The outcome of a row of which there are soft tokens.
enum class soft_outcome : std::uint8_t {
  unread,     ///< there are none
  read,       ///< before the decision
  masked,     ///< its position is still masked
  committed,  ///< its position has a token now
};

/// The soft tokens of a sequence. Only if it asks for any (start_options::soft_tokens).
struct soft_rows {
  index_t count = 0;   ///< tokens of a row
  index_t places = 0;  ///< rows at most
  /// [places], by position - score.first: the head of a row, as its read left it, without tracked
  /// columns; what the step did with it; [places][count], no_token where the row has fewer.
  held_tokens* held = nullptr;
  soft_outcome* outcomes = nullptr;
  token_probability* entries = nullptr;

  /// There was no step.
  UNMASK_HD void forget(const auto& t) {
    for (index_t i = t.lane(); i < places; i += t.lanes()) {
      outcomes[i] = soft_outcome::unread;
    }
  }
  /// Sets the outcomes of the rows that were read, after a step.
  UNMASK_HD void finish(const auto& t, const mark* marks) {
    for (index_t i = t.lane(); i < places; i += t.lanes()) {
      const bool was_read = outcomes[i] == soft_outcome::read;
      const index_t position = entries[std::ptrdiff_t{i} * count].position;
      outcomes[i] = !was_read                         ? soft_outcome::unread
                    : marks[position] == mark::masked ? soft_outcome::masked
                                                      : soft_outcome::committed;
    }
  }
};

/// Copies the entries of rows with an outcome, without gaps. Returns their number.
[[nodiscard]] inline std::size_t
collect(const soft_rows& from, soft_outcome which, token_probability* to) {
  std::size_t size = 0;
  for (index_t i = 0; i < from.places; ++i) {
    for (index_t k = 0; from.outcomes[i] == which && k < from.count; ++k) {
      const token_probability& e = from.entries[std::ptrdiff_t{i} * from.count + k];
      if (e.token == no_token) {
        break;
      }
      to[size++] = e;
    }
  }
  return size;
}

namespace phase {

/// The first tokens of scored position i, whose row was read and edited, best first.
template <class Policy>
UNMASK_HD void soften_row(const slot_memory<Policy>& m, index_t i) {
  const record<Policy::required>& row = m.row(i);
  held_tokens& held = m.soft->held[i];
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
    m.soft->held[i].clear();
  }
}

/// Computes the soft tokens of the masked positions whose rows were read, before the step decides.
template <class Policy>
UNMASK_HD void soften(const auto& t, const slot_memory<Policy>& m) {
  for (index_t i = t.lane(); i < m.status->next.score.size(); i += t.lanes()) {
    if (m.soft->outcomes[i] == soft_outcome::read) {
      soften_row(m, i);
    }
  }
}

}  // namespace phase

}  // namespace unmask::step
