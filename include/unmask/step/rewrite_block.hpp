// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/gate.hpp>

/// Rules that rewrite a block as a whole (core/part/rewriting.hpp), and text that moves.
namespace UNMASK_NAMESPACE::step {

/// A token and its probability in the whole row; no_token and 0 if there is none.
struct token_choice {
  token_id token = no_token;
  float probability = 0.0F;
};

/// An edit of a scored position, in slot_arrays::keys: whether it stays, and how many
/// positions are inserted before it. Beside them its index in the range.
struct text_edit {
  static constexpr std::uint64_t erases = std::uint64_t{1} << 63U;
  [[nodiscard]] UNMASK_HD static std::uint64_t of(index_t i, index_t inserts) {
    return static_cast<std::uint64_t>(inserts) << 32U | static_cast<std::uint32_t>(i);
  }
  [[nodiscard]] UNMASK_HD static index_t index(std::uint64_t key) {
    return static_cast<index_t>(key & 0xffffffffU);
  }
  [[nodiscard]] UNMASK_HD static index_t inserts(std::uint64_t key) {
    return static_cast<index_t>((key & ~erases) >> 32U);
  }
};

/// The rows of the scored range as given to a part that rewrites blocks.
template <class Policy>
class block_rows {
 public:
  /// `part`: index of the part in the text, for reports.
  UNMASK_HD block_rows(const slot_memory<Policy>& m, index_t part)
      : m_(m)
      , part_(part)
      , first_(m.status->next.score.first)
      , size_(m.status->next.score.size()) {}

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
      c.probability =
          math::divide(math::exp_nonpositive(math::min(logit - all.best, 0.0F)), 1.0F + all.rest);
    }
    return c;
  }

  UNMASK_HD void write(index_t i, token_id token, float probability) const {
    const bool masks = token == mask_token();
    m_.note(i, {part_});
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
  UNMASK_HD void erase(index_t i) {
    m_.keys[i] |= text_edit::erases;
    moves_ = true;
  }
  UNMASK_HD void insert(index_t i, index_t count = 1) {
    m_.keys[i] = text_edit::of(i, count);
    moves_ = true;
  }
  [[nodiscard]] UNMASK_HD index_t most() const { return m_.state->geometry.length - first_; }
  UNMASK_HD void resize(index_t size) {
    size_ = math::min(size, most());
    moves_ = true;
  }
  UNMASK_HD void append(index_t count, token_id token) {
    appended_ = math::min(count, most() - size_);
    appended_token_ = token;
    moves_ = true;
  }

  /// The size that the range gets, the positions that are appended to it, and their token.
  [[nodiscard]] UNMASK_HD index_t new_size() const { return size_; }
  [[nodiscard]] UNMASK_HD index_t appended() const { return appended_; }
  [[nodiscard]] UNMASK_HD token_id appended_token() const { return appended_token_; }
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
  const slot_memory<Policy>& m_;
  index_t part_;
  index_t first_;
  index_t size_;
  index_t appended_ = 0;
  token_id appended_token_ = no_token;
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
  m.states.each([=](auto* of) { of[target] = of[source]; });
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

/// Lane 0: puts a block together after its tokens were written, `size` positions: first without the
/// erased ones, then with the inserted ones. Stores in `ranks` where the token of each position is
/// now, -1 if it is not. Returns the lowest position that changed.
template <class Policy>
[[nodiscard]] UNMASK_HD index_t put_together(const slot_memory<Policy>& m,
                                             range block,
                                             index_t size) {
  index_t first = block.first + math::min(size, block.size());
  index_t kept = 0;
  index_t inserted = 0;
  for (index_t i = 0; i < block.size(); ++i) {
    const std::uint64_t key = m.keys[i];
    m.ranks[i] = -1;
    if (key != text_edit::of(i, 0)) {
      first = math::min(first, block.first + i);
    }
    if ((key & text_edit::erases) == 0) {
      move_position(m, block.first + i, block.first + kept);
      m.keys[kept] = key;
      ++kept;
      inserted += text_edit::inserts(key);
    }
  }
  index_t to = kept + inserted;
  for (index_t free = to; free < size; ++free) {
    insert_mask(m, block.first + free);
  }
  for (index_t i = kept - 1; i >= 0; --i) {
    const std::uint64_t key = m.keys[i];
    --to;
    if (to < size) {
      move_position(m, block.first + i, block.first + to);
      m.ranks[text_edit::index(key)] = to;
    }
    for (index_t k = text_edit::inserts(key); k > 0; --k) {
      --to;
      if (to < size) {
        insert_mask(m, block.first + to);
      }
    }
  }
  return first;
}

/// Lane 0: appends positions to the text, masked or committed.
template <class Policy>
UNMASK_HD void append_text(const slot_memory<Policy>& m, range where, token_id token) {
  for (index_t p = where.first; p < where.last; ++p) {
    insert_mask(m, p);
    if (token != m.state->model.mask_token) {
      m.state->tokens[p] = token;
      m.marks[p] = mark::committed;
    }
  }
}

/// Calls the part that rewrites the scored block.
template <class Policy>
UNMASK_HD void rewrite_block(const deciding_group auto& t, const slot_memory<Policy>& m) {
  const range scored = m.status->next.score;
  for (index_t i = t.lane(); i < scored.size(); i += t.lanes()) {
    m.keys[i] = text_edit::of(i, 0);
  }
  t.sync();
  if (t.lane() == 0 && !scored.empty()) {
    const step_info at = info_of(*m.state, m.status->next, scored.first);
    detail::visit_parts<&part_traits::rewrites_blocks>(*m.policy, [&](const auto& v) {
      auto context = context_of(v, m, m.cell_of(scored.first), at);
      block_rows<Policy> rows(m, v.text_index);
      v.part.rewrite_block(rows, context);
      rows.finish();
      slot_state& s = *m.state;
      s.moves = {rows.moves(), rows.new_size(), rows.appended(), rows.appended_token()};
    });
  }
  t.sync();
}

/// Moves the text of the scored block as the part that rewrites blocks says. Tokens that the step
/// wrote are reported where they are now; those that left the block are not.
template <class Policy>
UNMASK_HD void move_text(const deciding_group auto& t, const slot_memory<Policy>& m) {
  slot_state& s = *m.state;
  if (t.lane() == 0 && s.moves.any) {
    const range block = m.status->next.score;
    const index_t first = put_together(m, block, s.moves.size);
    const index_t end = block.first + s.moves.size;
    append_text(m, {end, end + s.moves.appended}, s.moves.token);
    sequence_view& q = s.view;
    if (block.last == q.length) {
      q.length = end + s.moves.appended;
    }
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
    q.moved = first;
    report.last_moved = first;
    q.rewritten = math::min(q.rewritten, first);
    q.first_changed = math::min(q.first_changed, first);
    q.committed_prefix = math::min(q.committed_prefix, first);
    q.masked_count = q.masked_in({q.prompt_length, q.length});
    ++q.changed;
    s.moves = {};
  }
}

}  // namespace phase

}  // namespace unmask::step
