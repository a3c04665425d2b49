// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/held_list.hpp>

#include <algorithm>

namespace UNMASK_NAMESPACE::host {

/// Collects columns for a held_list while a run of a row is read, in ascending tokens. A list in
/// order moves half of its columns for each that is taken in; a pool appends, and drops what
/// cannot be held any more when it is full. 2 KB.
class held_pool {
 public:
  /// Nothing is collected for null.
  explicit held_pool(held_tokens* list)
      : list_(list)
      , bar_(list == nullptr ? math::infinity() : list->threshold()) {}

  /// Only columns above it can be held.
  [[nodiscard]] float bar() const { return bar_; }
  /// Says that as many columns as are held reach `logit`.
  void expect(float logit) { bar_ = std::max(bar_, __builtin_nextafterf(logit, -math::infinity())); }

  void push(float logit, token_id token) {
    keys_[size_++] = rank_key(logit, token);
    if (size_ == room) {
      drop();
    }
  }

  /// Gives the list what it holds of all.
  void finish() {
    if (size_ > held_tokens::capacity) {
      drop();
    }
    std::sort(keys_, keys_ + size_, std::ranges::greater{});
    for (index_t i = 0; i < size_; ++i) {
      const ranked_token column = ranked(keys_[i]);
      list_->push(column.logit, column.token);
    }
  }

 private:
  static constexpr index_t room = 4 * held_tokens::capacity;

  void drop() {
    std::uint64_t* const last = keys_ + held_tokens::capacity - 1;
    std::nth_element(keys_, last, keys_ + size_, std::ranges::greater{});
    size_ = held_tokens::capacity;
    bar_ = std::max(bar_, ranked(*last).logit);
  }

  held_tokens* list_;
  float bar_;
  index_t size_ = 0;
  std::uint64_t keys_[room];
};

/// Stands for one where nothing is held.
struct no_pool {
  explicit no_pool(held_tokens* /*list*/) {}
  [[nodiscard]] static float bar() { return math::infinity(); }
  static void push(float /*logit*/, token_id /*token*/) {}
  static void finish() {}
};

}  // namespace unmask::host
