// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/step/active.hpp>
#include <unmask/step/soft_tokens.hpp>
#include <unmask/step/truncate.hpp>

#include <algorithm>
#include <span>
#include <utility>
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
    rows_of_slot_.rows = rows_.data();
    rows_of_slot_.entries = entries_.data();
    next_count_ = count;
  }
  /// The sequence for which room was made begins.
  void begin() {
    rows_of_slot_.count = next_count_;
    next_count_ = 0;
    forget();
  }

  /// Null if the sequence asks for none.
  [[nodiscard]] step::soft_rows* rows() {
    return rows_of_slot_.count > 0 ? &rows_of_slot_ : nullptr;
  }
  /// Notes that the row of scored position i is read. Returns the place of its columns.
  [[nodiscard]] held_tokens& note(index_t i) {
    step::soft_row& row = rows_[static_cast<std::size_t>(i)];
    row.is_read = true;
    return row.held;
  }

  /// Keeps the entries of positions that are still masked, and apart from them those of positions
  /// that have a token now, without gaps, after a step.
  void finish(const mark* marks) {
    size_ = alternative_count_ = 0;
    const auto count = static_cast<std::size_t>(rows_of_slot_.count);
    for (std::size_t i = 0; count > 0 && i < rows_.size(); ++i) {
      if (!std::exchange(rows_[i].is_read, false)) {
        continue;
      }
      for (std::size_t k = 0; k < count; ++k) {
        const token_probability e = entries_[i * count + k];
        if (e.token != no_token) {
          (marks[e.position] == mark::masked ? entries_[size_++]
                                             : alternatives_[alternative_count_++]) = e;
        }
      }
    }
  }
  /// The entries of the last step.
  [[nodiscard]] std::span<const token_probability> entries() const {
    return {entries_.data(), size_};
  }
  /// Those of positions that the last step gave a token.
  [[nodiscard]] std::span<const token_probability> alternatives() const {
    return {alternatives_.data(), alternative_count_};
  }
  /// There was no step.
  void forget() {
    size_ = alternative_count_ = 0;
    for (step::soft_row& row : rows_) {
      row.is_read = false;
    }
  }

 private:
  std::vector<step::soft_row> rows_;
  std::vector<token_probability> entries_;
  std::vector<token_probability> alternatives_;
  step::soft_rows rows_of_slot_;
  index_t next_count_ = 0;
  std::size_t size_ = 0;
  std::size_t alternative_count_ = 0;
};

/// Refuses soft tokens with a policy whose rows are not those of one whole sequence.
template <class Policy>
void check_soft_tokens(const Policy& policy, index_t count) {
  if (count == 0) {
    return;
  }
  const char* const why =
      step::branches_now(policy)
          ? "lookahead, drafts or a beam: the rows of a branch are of another sequence"
      : step::rewrites_blocks_now(policy)
          ? "a rule that rewrites blocks: the text moves after its rows were read"
      : step::truncates_now(policy) && step::truncation_of(policy).renormalises
          ? "confidence_after_truncation: its rows have no probabilities of the other tokens"
          : nullptr;
  if (why != nullptr) {
    unmask::detail::message().add("start_options::soft_tokens does not go with ").add(why).refuse();
  }
}

}  // namespace unmask::host
