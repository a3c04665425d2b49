// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/soft_tokens.hpp>

#include <algorithm>
#include <span>
#include <vector>

namespace UNMASK_NAMESPACE::host {

/// The soft tokens of a slot, and the memory that they need.
class soft_memory {
 public:
  /// Makes room for a sequence that asks for `count` tokens of each of so many rows; the sequence
  /// that begins next has them. Allocates if there is none.
  void reserve(index_t count, index_t window) {
    const auto rows = static_cast<std::size_t>(count > 0 ? window : 0);
    rows_.resize(std::max(rows_.size(), rows));
    entries_.resize(std::max(entries_.size(), rows * static_cast<std::size_t>(count)));
    alternatives_.resize(entries_.size());
    of_slot_.places = static_cast<index_t>(rows_.size());
    of_slot_.rows = rows_.data();
    of_slot_.entries = entries_.data();
    of_slot_.alternatives = alternatives_.data();
    next_count_ = count;
  }
  /// The sequence for which room was made begins.
  void begin() {
    of_slot_.count = next_count_;
    next_count_ = 0;
    of_slot_.forget();
  }

  /// Null if the sequence asks for none.
  [[nodiscard]] step::soft_rows* rows() { return of_slot_.count > 0 ? &of_slot_ : nullptr; }
  /// Notes that the row of scored position i is read. Returns the place of its columns.
  [[nodiscard]] held_tokens& note(index_t i) {
    step::soft_row& row = rows_[static_cast<std::size_t>(i)];
    row.is_read = true;
    return row.held;
  }
  /// Ends a step: soft_rows::part().
  void finish(const mark* marks) { of_slot_.part(marks); }

  /// The entries of the last step.
  [[nodiscard]] std::span<const token_probability> entries() const {
    return {entries_.data(), static_cast<std::size_t>(of_slot_.size)};
  }
  /// Those of positions that the last step gave a token.
  [[nodiscard]] std::span<const token_probability> alternatives() const {
    return {alternatives_.data(), static_cast<std::size_t>(of_slot_.alternatives_size)};
  }

 private:
  std::vector<step::soft_row> rows_;
  std::vector<token_probability> entries_;
  std::vector<token_probability> alternatives_;
  step::soft_rows of_slot_;
  index_t next_count_ = 0;
};

}  // namespace unmask::host
