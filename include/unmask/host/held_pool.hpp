// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/held_list.hpp>

#include <algorithm>

namespace UNMASK_NAMESPACE::host {

/// Collects columns for a held_list while a run of a row is read, in ascending tokens. A sorted
/// list moves half of its columns for each insertion; a pool appends, and when it is full drops the
/// columns that cannot be held. 2 KB.
class held_pool {
 public:
  /// Collects nothing if `list` is null.
  explicit held_pool(held_tokens* list)
      : list_(list)
      , bar_(list == nullptr ? math::infinity() : list->threshold()) {}

  /// A column can be held only if its logit is above this.
  [[nodiscard]] float bar() const { return bar_; }
  /// Tells the pool that at least as many columns as can be held have a logit of at least `logit`.
  void expect(float logit) {
    bar_ = std::max(bar_, __builtin_nextafterf(logit, -math::infinity()));
  }

  void push(float logit, token_id token) {
    keys_[size_++] = rank_key(logit, token);
    if (size_ == room) {
      drop();
    }
  }

  /// Moves the collected columns to the list.
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

/// Placeholder for reads without held columns.
struct no_pool {
  explicit no_pool(held_tokens* /*list*/) {}
  [[nodiscard]] static float bar() { return math::infinity(); }
  static void push(float /*logit*/, token_id /*token*/) {}
  static void finish() {}
};

}  // namespace unmask::host
