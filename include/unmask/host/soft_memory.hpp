// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/thread_group.hpp>
#include <unmask/step/soft_tokens.hpp>

#include <algorithm>
#include <span>
#include <vector>

namespace UNMASK_NAMESPACE::host {

/// The soft tokens of a slot, and the memory that they need.
class soft_memory {
 public:
  /// Makes room for `count` tokens of each row of the sequence that begins next. Allocates if there
  /// is none.
  void reserve(index_t count, index_t window) {
    const auto rows = static_cast<std::size_t>(count > 0 ? window : 0);
    rows_.resize(std::max(rows_.size(), rows));
    outcomes_.resize(rows_.size());
    entries_.resize(std::max(entries_.size(), rows * static_cast<std::size_t>(count)));
    masked_.resize(entries_.size());
    committed_.resize(entries_.size());
    of_slot_.places = static_cast<index_t>(rows_.size());
    of_slot_.rows = rows_.data();
    of_slot_.outcomes = outcomes_.data();
    of_slot_.entries = entries_.data();
    next_count_ = count;
  }
  /// The sequence for which room was made begins.
  void begin() {
    of_slot_.count = next_count_;
    next_count_ = 0;
    of_slot_.forget(serial{});
    masked_size_ = committed_size_ = 0;
  }

  /// Null if the sequence asks for none.
  [[nodiscard]] step::soft_rows* rows() { return of_slot_.count > 0 ? &of_slot_ : nullptr; }
  /// Notes that the row of scored position i is read. Returns the place of its columns.
  [[nodiscard]] held_tokens& note(index_t i) {
    outcomes_[static_cast<std::size_t>(i)] = step::soft_outcome::read;
    return rows_[static_cast<std::size_t>(i)].held;
  }
  /// Ends a step: parts its entries in two lists.
  void finish(const mark* marks) {
    if (of_slot_.count > 0) {
      of_slot_.finish(serial{}, marks);
      masked_size_ = step::collect(of_slot_, step::soft_outcome::masked, masked_.data());
      committed_size_ = step::collect(of_slot_, step::soft_outcome::committed, committed_.data());
    }
  }

  /// The entries of the last step of positions that are still masked.
  [[nodiscard]] std::span<const token_probability> entries() const {
    return {masked_.data(), masked_size_};
  }
  /// The entries of positions that the last step gave a token.
  [[nodiscard]] std::span<const token_probability> alternatives() const {
    return {committed_.data(), committed_size_};
  }

 private:
  std::vector<step::soft_row> rows_;
  std::vector<step::soft_outcome> outcomes_;
  std::vector<token_probability> entries_;
  std::vector<token_probability> masked_;
  std::vector<token_probability> committed_;
  std::size_t masked_size_ = 0;
  std::size_t committed_size_ = 0;
  step::soft_rows of_slot_;
  index_t next_count_ = 0;
};

}  // namespace unmask::host
