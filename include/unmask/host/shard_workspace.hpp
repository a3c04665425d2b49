// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/fixed_array.hpp>
#include <unmask/core/request.hpp>
#include <unmask/host/shard_reader.hpp>
#include <unmask/ranks/gather.hpp>

#include <cstring>
#include <span>

namespace UNMASK_NAMESPACE::host {

/// Workspace of a sharded_session on the host in addition to the workspace of its session: the
/// reader of this rank's columns, and messages with a row for each row of the step.
template <class Policy>
class shard_workspace {
  using memory_type = step::slot_memory<Policy>;
  static constexpr statistics contents = Policy::required;
  // One for the entry that step::name_listed() writes behind the tracked logits.
  static constexpr index_t named = step::stages<Policy>::restricts > 0 ? 1 : 0;

 public:
  using messages = std::span<const std::byte>;

  /// `nodes` is the number of nodes of a row for which a message has room.
  shard_workspace(const model_info& model,
                  const session_capacity& capacity,
                  range columns,
                  index_t nodes,
                  const auto& where)
      : vocab_(model.vocab)
      , columns_(columns)
      , nodes_(nodes)
      , most_rows_(static_cast<std::size_t>(capacity.sequences) *
                   step::most_rows(step::needs_of<Policy>(capacity), capacity))
      , reader_(most_rows_ * static_cast<std::size_t>(ranks::nodes_of(columns, model.vocab)),
                where.executor,
                where.instruction_set)
      , message_(ranks::message_bytes<contents>(
            static_cast<index_t>(most_rows_), nodes, step::tracked_capacity(Policy::tracks)))
      , tracked_(static_cast<std::size_t>(step::tracked_capacity(Policy::tracks))) {}

  [[nodiscard]] std::size_t most_bytes() const { return message_.size(); }

  /// Size in bytes of a message for these segments.
  [[nodiscard]] std::size_t message_bytes(const auto& slots, std::span<const segment> all) const {
    return ranks::message_bytes<contents>(about(slots, all, 0));
  }

  /// Returns the message of step `step` for the segments `mine` of `all`. Row 0 of `logits` is the
  /// first row of the first of them, column 0 that of the first of this rank's columns.
  template <element T>
  [[nodiscard]] messages read(const auto& slots,
                              std::span<const segment> all,
                              range mine,
                              const rows_view<T, memory::host>& logits,
                              const row_modifiers<T>& modifiers,
                              std::uint32_t step) {
    ranks::message_header h = about(slots, all, step);
    index_t row = 0;
    h.rows = {h.all_rows, h.all_rows};
    for_each_row(slots, all, [&](index_t k, const memory_type& m, index_t branch, index_t i) {
      if (mine.contains(k)) {
        h.rows.first = math::min(h.rows.first, row);
        h.rows.last = row + 1;
        const segment& s = all[static_cast<std::size_t>(k)];
        const index_t before = s.first_row - all[static_cast<std::size_t>(mine.first)].first_row;
        const index_t position = m.status->next.score.first + i;
        const index_t r = before + math::max(position - s.logits_shift, 0) - s.rows.first;
        const T* const row_of_logits = columns_.empty() ? nullptr : logits.row(r);
        reader_.enqueue(m, branch, i, row_of_logits, modifiers.from_row(r), columns_);
      }
      ++row;
    });
    const record<contents>* nodes = reader_.run();
    const index_t nodes_of_row = ranks::nodes_of(columns_, vocab_);
    row = 0;
    for_each_row(slots, all, [&](index_t, const memory_type& m, index_t branch, index_t i) {
      if (h.rows.contains(row)) {
        const float* tracked = tracked_of(m, branch, i, h.tracked);
        ranks::pack<contents>(h, row, nodes, tracked, message_.data());
        nodes += nodes_of_row;
      }
      ++row;
    });
    std::memcpy(message_.data(), &h, sizeof h);
    return {message_.data(), ranks::message_bytes<contents>(h)};
  }

  /// Merges the rows of step `step` from `count` messages of message_bytes() each. Errors:
  /// std::invalid_argument for messages that do not fit together; nothing is changed then.
  void merge(const auto& slots,
             std::span<const segment> all,
             messages from,
             index_t count,
             std::uint32_t step) {
    const ranks::message_header mine = about(slots, all, step);
    for (index_t k = 0; k < count; ++k) {
      ranks::check(ranks::check_message<contents>(mine, from.data(), k));
    }
    for (index_t row = 0; row < mine.all_rows; ++row) {
      ranks::check(ranks::check_row<contents>(mine, from.data(), count, row));
    }
    index_t row = 0;
    for_each_row(slots, all, [&](index_t, const memory_type& m, index_t branch, index_t i) {
      const tracked_logits w = m.kept_apart(branch, i);
      m.row(branch, i) =
          ranks::record_of<contents>(mine, from.data(), count, row, w.logits, w.count + named);
      ++row;
    });
  }

  /// For backends that detect the errors of merge() later.
  void check_merged() const {}

 private:
  // Calls use(segment, memory, branch, i) for each row of the step, in the order of the messages'
  // rows.
  static void for_each_row(const auto& slots, std::span<const segment> all, const auto& use) {
    for (index_t k = 0; k < static_cast<index_t>(all.size()); ++k) {
      const segment& s = all[static_cast<std::size_t>(k)];
      const memory_type& m = slots.memory_of(s.slot);
      for (index_t i = 0; i < m.read_range().size(); ++i) {
        if (m.reads(s.branch, i)) {
          use(k, m, s.branch, i);
        }
      }
    }
  }

  // The header of this rank's message with all rows.
  [[nodiscard]] ranks::message_header
  about(const auto& slots, std::span<const segment> all, std::uint32_t step) const {
    ranks::message_header h;
    h.contents = contents.bits;
    h.step = step;
    h.vocab = vocab_;
    h.columns = columns_;
    h.nodes = nodes_;
    for_each_row(slots, all, [&](index_t, const memory_type& m, index_t branch, index_t i) {
      ++h.all_rows;
      h.tracked = math::max(h.tracked, m.kept_apart(branch, i).count + named);
    });
    h.rows = {0, h.all_rows};
    return h;
  }

  // The tracked logits of a row, padded with -inf to the number for which the message has room.
  [[nodiscard]] const float*
  tracked_of(const memory_type& m, index_t branch, index_t i, index_t count) {
    const tracked_logits w = m.kept_apart(branch, i);
    for (index_t k = 0; k < count; ++k) {
      tracked_[static_cast<std::size_t>(k)] = k < w.count + named ? w.logits[k] : -math::infinity();
    }
    return tracked_.data();
  }

  index_t vocab_;
  range columns_;
  index_t nodes_;
  std::size_t most_rows_;
  shard_reader<Policy> reader_;
  fixed_array<std::byte> message_;
  fixed_array<float> tracked_;
};

}  // namespace unmask::host
