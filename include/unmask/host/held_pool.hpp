// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/held_list.hpp>

#include <algorithm>

namespace UNMASK_NAMESPACE::host {

/// Collects columns for a held_list while a run of a row is read. A sorted list moves half of its
/// columns for each insertion; a pool appends, and when it is full drops the columns that cannot be
/// held. Its branches do not depend on the logits, which a processor cannot predict. 2 KB.
class held_pool {
 public:
  /// Most columns that may be pushed between two calls of make_room().
  static constexpr index_t group = 64;

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

  void push(float logit, token_id token) { keys_[size_++] = rank_key(logit, token); }

  /// Makes room for `group` more columns.
  void make_room() {
    if (size_ > room - group) {
      drop();
    }
  }

  /// Moves the collected columns to the list.
  void finish() {
    if (size_ > capacity) {
      drop();
    }
    std::uint64_t sorted[capacity];
    for (index_t i = 0; i < size_; ++i) {
      index_t before = 0;
      for (index_t j = 0; j < capacity; ++j) {
        before += keys_[j] > keys_[i] ? 1 : 0;
      }
      sorted[before] = keys_[i];
    }
    for (index_t i = 0; i < size_; ++i) {
      const ranked_token column = ranked(sorted[i]);
      list_->push(column.logit, column.token);
    }
  }

 private:
  static constexpr index_t capacity = held_tokens::capacity;
  static constexpr index_t room = 2 * capacity + group;

  // Keeps the largest keys that the list can hold: finds, bit by bit, a key that separates
  // them.
  void drop() {
    std::uint64_t least = 0;
    for (std::uint64_t bit = std::uint64_t{1} << 63U, count = 0; count != capacity; bit >>= 1U) {
      const std::uint64_t tried = least | bit;
      count = 0;
      for (const std::uint64_t key : keys_) {  // of known length, hence in vectors
        count += key >= tried ? 1U : 0U;
      }
      least = count >= capacity ? tried : least;
    }
    index_t kept = 0;
    for (index_t i = 0; i < size_; ++i) {
      const std::uint64_t key = keys_[i];
      keys_[kept] = key;
      kept += key >= least ? 1 : 0;
    }
    std::fill(keys_ + kept, keys_ + size_, 0);
    size_ = kept;
    bar_ = std::max(bar_, ranked(least).logit);
  }

  held_tokens* list_;
  float bar_;
  index_t size_ = 0;
  std::uint64_t keys_[room] = {};  // 0, which no column has, from size_ on
};

/// Placeholder for reads without held columns.
struct no_pool {
  explicit no_pool(held_tokens* /*list*/) {}
  [[nodiscard]] static float bar() { return math::infinity(); }
  static void push(float /*logit*/, token_id /*token*/) {}
  static void make_room() {}
  static void finish() {}
};

}  // namespace unmask::host
