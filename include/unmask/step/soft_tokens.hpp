// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/slot.hpp>

/// Soft tokens: the most probable tokens of rows whose positions stay masked, for engines that feed
/// such a position with a mixture of embeddings.
namespace UNMASK_NAMESPACE::step {

/// The outcome of a row whose soft tokens are kept.
enum class soft_outcome : std::uint8_t {
  unread,     ///< there are none
  read,       ///< before the decision
  masked,     ///< its position is still masked
  committed,  ///< its position has a token now
};

/// The head of a row.
struct soft_row {
  held_tokens held;     ///< as its read left it, without tracked columns; then with them
  index_t best_at = 0;  ///< place of the row's best token in `held`, or its size
  index_t size = 0;     ///< entries of the row
  float sum = 0.0F;     ///< of their probabilities
};

/// The soft tokens of a sequence. Only if it asks for any (start_options::soft_tokens).
struct soft_rows {
  index_t count = 0;                     ///< tokens of a row
  index_t places = 0;                    ///< rows at most
  soft_row* rows = nullptr;              ///< [places], by position - score.first
  soft_outcome* outcomes = nullptr;      ///< [places]
  token_probability* entries = nullptr;  ///< [places][count], no_token where the row has fewer

  /// Marks every row as unread: no step was decided.
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

/// Prepares the entries of scored position i, whose row was read and edited.
template <class Policy>
UNMASK_HD void begin_soft_row(const slot_memory<Policy>& m, index_t i) {
  const record<Policy::required>& row = m.row(i);
  soft_row& head = m.soft->rows[i];
  const tracked_logits w = m.kept_apart(0, i);
  for (index_t k = 0; k < w.count; ++k) {
    if (find_token(w.suppressed, w.suppressed_count, w.tokens[k]) < 0) {
      head.held.push(w.logits[k], w.tokens[k]);
    }
  }
  const index_t held = head.held.size();
  head.best_at = 0;
  while (head.best_at < held && head.held[head.best_at].token != row.token) {
    ++head.best_at;
  }
  // The best token is first: an edit may have raised it, although it is not tracked.
  const index_t others = head.best_at < held ? held - 1 : held;
  head.size = row.valid() && held > 0 ? math::min(m.soft->count, 1 + others) : 0;
}

/// Writes entry k of scored position i, except its share.
template <class Policy>
UNMASK_HD void write_soft_token(const slot_memory<Policy>& m, index_t i, index_t k) {
  const record<Policy::required>& row = m.row(i);
  const soft_row& head = m.soft->rows[i];
  token_probability& out = m.soft->entries[std::ptrdiff_t{i} * m.soft->count + k];
  out = {m.slot, m.status->next.score.first + i, no_token, m.state->view.step};
  if (k < head.size) {
    const ranked_token column =
        k == 0 ? ranked_token{row.best, row.token} : head.held[k - (k <= head.best_at ? 1 : 0)];
    out.token = column.token;
    out.probability = math::divide(math::exp_nonpositive(math::min(column.logit - row.best, 0.0F)),
                                   1.0F + row.rest);
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
  const soft_rows& s = *m.soft;
  const index_t rows = m.status->next.score.size();
  const auto for_each_row = [&](const auto& use) {
    for (index_t i = t.lane(); i < rows; i += t.lanes()) {
      if (s.outcomes[i] == soft_outcome::read) {
        use(i);
      }
    }
    t.sync();
  };
  const auto for_each_entry = [&](const auto& use) {
    for (index_t n = t.lane(); n < rows * s.count; n += t.lanes()) {
      if (s.outcomes[n / s.count] == soft_outcome::read) {
        use(n / s.count, n % s.count);
      }
    }
    t.sync();
  };
  for_each_row([&](index_t i) { begin_soft_row(m, i); });
  for_each_entry([&](index_t i, index_t k) { write_soft_token(m, i, k); });
  for_each_row([&](index_t i) {
    float sum = 0.0F;  // in this order, on every backend
    for (index_t k = 0; k < s.rows[i].size; ++k) {
      sum += s.entries[std::ptrdiff_t{i} * s.count + k].probability;
    }
    s.rows[i].sum = sum;
  });
  for_each_entry([&](index_t i, index_t k) {
    if (k < s.rows[i].size) {
      token_probability& e = s.entries[std::ptrdiff_t{i} * s.count + k];
      e.share = math::divide(e.probability, s.rows[i].sum);
    }
  });
}

}  // namespace phase

}  // namespace unmask::step
