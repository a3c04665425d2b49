// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/core/fixed_array.hpp>
#include <unmask/core/types.hpp>

#include <cstdint>

namespace UNMASK_NAMESPACE {

/// The memory ranges of the tokens that the slots of one session were last started with: running
/// sequences must not overlap. Host only; allocates in its constructor only.
class lent_tokens {
 public:
  explicit lent_tokens(index_t slots)
      : lent_(static_cast<std::size_t>(slots)) {}

  /// Throws std::invalid_argument if the `count` tokens from `first` on overlap the tokens of
  /// another slot with a running sequence. `runs(slot)` is called only where they overlap. Cost:
  /// O(slots).
  void check(index_t slot, const token_id* first, index_t count, const auto& runs) const {
    const interval wanted(first, count);
    for (std::size_t other = 0; other < lent_.size(); ++other) {
      if (static_cast<index_t>(other) != slot && lent_[other].meets(wanted)) {
        check_apart(!runs(other), slot, static_cast<index_t>(other));
      }
    }
  }
  /// Throws std::invalid_argument unless the tokens of two slots are `apart`.
  static void check_apart(bool apart, index_t slot, index_t other) {
    if (!apart) {
      detail::message()
          .add("tokens of slot ")
          .add(slot)
          .add(" overlap those of slot ")
          .add(other)
          .add(", which runs")
          .refuse();
    }
  }
  void record(index_t slot, const token_id* first, index_t count) {
    lent_[static_cast<std::size_t>(slot)] = interval(first, count);
  }

 private:
  // Addresses of tokens in host or device memory, [first, last).
  struct interval {
    std::uintptr_t first = 0;
    std::uintptr_t last = 0;

    interval() = default;
    interval(const token_id* data, index_t count)
        : first(reinterpret_cast<std::uintptr_t>(data))
        , last(first + sizeof(token_id) * static_cast<std::size_t>(count)) {}
    [[nodiscard]] bool meets(const interval& o) const { return first < o.last && o.first < last; }
  };

  fixed_array<interval> lent_;
};

}  // namespace unmask
