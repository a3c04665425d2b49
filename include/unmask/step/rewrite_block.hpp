// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/gate.hpp>

/// Rules that rewrite a block as a whole (core/block_rewriting.hpp), and text that moves.
namespace UNMASK_NAMESPACE::step {

/// A token and its probability in the whole row; no_token and 0 if there is none.
struct token_choice {
  token_id token = no_token;
  float probability = 0.0F;
};

/// What becomes of a scored position, in slot_arrays::keys beside its index.
enum class text_edit : std::uint8_t { keep, erase, insert };

/// The rows of the scored range as given to a part that rewrites blocks.
template <class Policy>
class block_rows {
 public:
  UNMASK_HD explicit block_rows(const slot_memory<Policy>& m)
      : m_(m)
      , first_(m.status->next.score.first) {}

  [[nodiscard]] UNMASK_HD index_t size() const { return m_.status->next.score.size(); }
  [[nodiscard]] UNMASK_HD bool is_masked(index_t i) const {
    return m_.marks[first_ + i] == mark::masked;
  }
  [[nodiscard]] UNMASK_HD bool is_committed(index_t i) const {
    return m_.marks[first_ + i] == mark::committed;
  }
  [[nodiscard]] UNMASK_HD bool is_inserted(index_t i) const { return m_.inserted[first_ + i]; }
  [[nodiscard]] UNMASK_HD token_id token(index_t i) const { return m_.state->tokens[first_ + i]; }
  [[nodiscard]] UNMASK_HD token_id mask_token() const { return m_.state->model.mask_token; }

  [[nodiscard]] UNMASK_HD token_choice best(index_t i) const {
    return best(i, [](token_id) { return false; });
  }
  [[nodiscard]] UNMASK_HD token_choice best(index_t i, const auto& skips) const {
    const record<Policy::required>& untracked = m_.row(i);
    const tracked_logits w = m_.kept_apart(0, i);
    const record<Policy::required> all = total(i);
    token_choice c;
    float logit = -math::infinity();
    const auto offer = [&](token_id token, float z) {
      if (token != no_token && !skips(token) &&
          (c.token == no_token || z > logit || (z == logit && token < c.token))) {
        c.token = token;
        logit = z;
      }
    };
    offer(untracked.token, untracked.best);
    for (index_t k = 0; k < w.count; ++k) {
      if (w.logits[k] > -math::infinity() &&
          find_token(w.suppressed, w.suppressed_count, w.tokens[k]) < 0) {
        offer(w.tokens[k], w.logits[k]);
      }
    }
    if (c.token != no_token && all.valid()) {
      c.probability = math::divide(math::exp_nonpositive(math::min(logit - all.best, 0.0F)),
                                   1.0F + all.rest);
    }
    return c;
  }

  UNMASK_HD void write(index_t i, token_id token, float probability) const {
    const bool masks = token == mask_token();
    if (is_masked(i)) {
      m_.roles[i] = masks ? m_.roles[i] : role::accepted;
    } else {
      m_.roles[i] = masks ? role::remasked : role::replaced;
    }
    if (!masks) {  // the record of the token in the whole row
      record<Policy::required>& row = m_.row(i);
      row = total(i);
      row.token = token;
      row.rest = math::divide(1.0F, probability) - 1.0F;
    }
  }
  UNMASK_HD void erase(index_t i) { set(i, text_edit::erase); }
  UNMASK_HD void insert(index_t i) { set(i, text_edit::insert); }

  /// Completes the rows of positions that are not written, for reports.
  UNMASK_HD void finish() const {
    for (index_t i = 0; i < size(); ++i) {
      if (m_.reads(i) && m_.roles[i] != role::accepted && m_.roles[i] != role::replaced) {
        m_.row(i) = total(i);
      }
    }
  }
  /// True if the text moves.
  [[nodiscard]] UNMASK_HD bool moves() const { return moves_; }

 private:
  [[nodiscard]] UNMASK_HD record<Policy::required> total(index_t i) const {
    return revisable_row<Policy::required>{m_.row(i), m_.kept_apart(0, i), draw_of(m_, i)}.total();
  }
  UNMASK_HD void set(index_t i, text_edit what) {
    m_.keys[i] = static_cast<std::uint64_t>(what);
    moves_ = true;
  }

  const slot_memory<Policy>& m_;
  index_t first_;
  bool moves_ = false;
};

/// Moves a token and everything that belongs to its position: mark, state of the parts, row of the
/// previous step, whether it was inserted. The position that it leaves keeps copies, which the
/// caller overwrites. Cost: the state of a position, and with a policy that compares rows a row.
template <class Policy>
UNMASK_HD void move_position(const slot_memory<Policy>& m, index_t from, index_t to) {
  if (from == to) {
    return;
  }
  m.state->tokens[to] = m.state->tokens[from];
  m.marks[to] = m.marks[from];
  if (m.inserted != nullptr) {
    m.inserted[to] = m.inserted[from];
  }
  const index_t source = m.cell_of(from);
  const index_t target = m.cell_of(to);
  m.cells[target] = m.cells[source];
  if constexpr (Policy::compares) {
    if (m.previous_rows != nullptr) {
      m.previous_rows[target] = m.previous_rows[source];
      for (std::ptrdiff_t v = 0; v < m.vocab; ++v) {
        m.previous[std::ptrdiff_t{target} * m.vocab + v] =
            m.previous[std::ptrdiff_t{source} * m.vocab + v];
      }
    }
  }
}

/// Makes a position a masked one that was inserted.
template <class Policy>
UNMASK_HD void insert_mask(const slot_memory<Policy>& m, index_t position) {
  m.state->tokens[position] = m.state->model.mask_token;
  m.marks[position] = mark::masked;
  m.inserted[position] = true;
  m.reset(m.cell_of(position));
}

namespace phase {

/// Calls the part that rewrites the scored block.
template <class Policy>
UNMASK_HD void rewrite_block([[maybe_unused]] const deciding_group auto& t,
                             [[maybe_unused]] const slot_memory<Policy>& m) {
  if constexpr (Policy::rewrites_blocks) {
    if (!rewrites_blocks_now(*m.policy)) {
      return;
    }
    const range scored = m.status->next.score;
    for (index_t i = t.lane(); i < scored.size(); i += t.lanes()) {
      m.keys[i] = static_cast<std::uint64_t>(text_edit::keep);
    }
    t.sync();
    if (t.lane() == 0 && !scored.empty()) {
      constexpr std::size_t I = detail::part_that<Policy, &part_traits::rewrites_blocks>;
      const step_info at = info_of(*m.state, m.status->next, scored.first);
      auto context = context_of<I>(m, m.cell_of(scored.first), at);
      block_rows<Policy> rows(m);
      m.policy->template part_at<I>().rewrite_block(rows, context);
      rows.finish();
      m.state->view.moved = rows.moves() ? scored.first : m.state->view.length;
    }
    t.sync();
  }
}

/// Lane 0: puts the block together after its tokens were written: first without the erased
/// positions, then with the inserted ones. Returns the lowest position that changed.
template <class Policy>
[[nodiscard]] UNMASK_HD index_t put_together(const slot_memory<Policy>& m, range block) {
  constexpr std::uint64_t action = 3;
  index_t first = block.last;
  index_t kept = 0;
  index_t inserted = 0;
  for (index_t i = 0; i < block.size(); ++i) {
    const std::uint64_t edit = m.keys[i] & action;
    m.ranks[i] = -1;
    if (edit != static_cast<std::uint64_t>(text_edit::keep)) {
      first = math::min(first, block.first + i);
    }
    if (edit != static_cast<std::uint64_t>(text_edit::erase)) {
      move_position(m, block.first + i, block.first + kept);
      m.keys[kept] = edit | (static_cast<std::uint64_t>(i) << 2U);
      ++kept;
      inserted += edit == static_cast<std::uint64_t>(text_edit::insert) ? 1 : 0;
    }
  }
  index_t to = kept + inserted;
  for (index_t free = to; free < block.size(); ++free) {
    insert_mask(m, block.first + free);
  }
  for (index_t i = kept - 1; i >= 0; --i) {
    const std::uint64_t key = m.keys[i];
    --to;
    if (to < block.size()) {
      move_position(m, block.first + i, block.first + to);
      m.ranks[key >> 2U] = to;
    }
    if ((key & action) == static_cast<std::uint64_t>(text_edit::insert)) {
      --to;
      if (to < block.size()) {
        insert_mask(m, block.first + to);
      }
    }
  }
  return first;
}

/// Moves the text of the scored block as the part that rewrites blocks says. Tokens that the step
/// wrote are reported where they are now; those that left the block are not.
template <class Policy>
UNMASK_HD void move_text([[maybe_unused]] const deciding_group auto& t,
                         [[maybe_unused]] const slot_memory<Policy>& m) {
  if constexpr (Policy::rewrites_blocks) {
    if (!rewrites_blocks_now(*m.policy)) {
      return;
    }
    slot_state& s = *m.state;
    if (t.lane() == 0 && s.view.moved < s.view.length) {
      const range block = m.status->next.score;
      const index_t first = put_together(m, block);
      sequence_report& report = m.status->report;
      index_t left = 0;
      for (index_t k = 0; k < report.last_commits; ++k) {
        commit_entry e = m.entries[k];
        const index_t to = m.ranks[e.position - block.first];
        if (to >= 0) {
          e.position = block.first + to;
          m.entries[left++] = e;
        }
      }
      report.last_commits = left;
      s.view.moved = first;
      s.view.rewritten = math::min(s.view.rewritten, first);
      s.view.first_changed = math::min(s.view.first_changed, first);
      s.view.committed_prefix = math::min(s.view.committed_prefix, first);
      s.view.masked_count = s.view.masked_in({s.view.prompt_length, s.view.length});
      ++s.view.changed;
    }
    t.sync();
  }
}

}  // namespace phase

}  // namespace unmask::step
