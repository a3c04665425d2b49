// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/types.hpp>

namespace UNMASK_NAMESPACE {

/// The tracked tokens of one row: the read excludes them from its sums and reports their logits
/// separately, so that they can be edited exactly afterwards, upwards and downwards. Ascending,
/// without repeats.
class tracked_list {
 public:
  /// An empty list with room for `capacity` tokens.
  UNMASK_HD tracked_list(token_id* tokens, index_t capacity)
      : tokens_(tokens)
      , capacity_(capacity) {}

  /// Adds a token; no effect if it is already there. Cost: O(size).
  UNMASK_HD void add(token_id token) {
    index_t at = size_;
    while (at > 0 && tokens_[at - 1] > token) {
      --at;
    }
    if ((at > 0 && tokens_[at - 1] == token) || size_ == capacity_) {
      UNMASK_EXPECTS(at > 0 && tokens_[at - 1] == token);
      return;
    }
    for (index_t i = size_; i > at; --i) {
      tokens_[i] = tokens_[i - 1];
    }
    tokens_[at] = token;
    ++size_;
  }

  /// Number of tokens.
  [[nodiscard]] UNMASK_HD index_t size() const { return size_; }

 private:
  token_id* tokens_;
  index_t capacity_;
  index_t size_ = 0;
};

/// Number of tokens of an ascending list below `token`.
[[nodiscard]] UNMASK_HD inline index_t
tokens_below(const token_id* tokens, index_t count, token_id token) {
  index_t low = 0;
  index_t high = count;
  while (low < high) {
    const index_t middle = (low + high) / 2;
    if (tokens[middle] < token) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// Index of `token` in an ascending list, or -1.
[[nodiscard]] UNMASK_HD inline index_t
find_token(const token_id* tokens, index_t count, token_id token) {
  const index_t at = tokens_below(tokens, count, token);
  return at < count && tokens[at] == token ? at : -1;
}

}  // namespace unmask
