// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/math.hpp>

namespace UNMASK_NAMESPACE {

/// A column of a row: a token and its logit.
struct ranked_token {
  float logit = 0.0F;
  token_id token = no_token;
};

/// Order of the columns for truncation: larger logit first, lower token between equal ones.
[[nodiscard]] UNMASK_HD constexpr bool ranks_before(const ranked_token& a, const ranked_token& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

/// That order as a number: a larger key ranks before a smaller one, equal keys are the same column;
/// no column has key 0. -0 counts as +0. Not for NaN.
[[nodiscard]] UNMASK_HD inline std::uint64_t rank_key(float logit, token_id token) {
  const std::uint32_t bits = math::bits_of(logit + 0.0F);
  const std::uint32_t ascending = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return (std::uint64_t{ascending} << 32U) | ~static_cast<std::uint32_t>(token);
}

/// The column of a key.
[[nodiscard]] UNMASK_HD inline ranked_token ranked(std::uint64_t key) {
  const auto high = static_cast<std::uint32_t>(key >> 32U);
  const auto low = static_cast<std::uint32_t>(key);
  return {math::from_bits((high & 0x80000000U) != 0 ? high & 0x7fffffffU : ~high),
          static_cast<token_id>(~low)};
}

/// The first `Capacity` of the pushed columns, in that order: the head of a row as known after one
/// read. A set: the order of pushes and merges does not change it. -inf and NaN are not taken in;
/// -0 counts as +0.
template <index_t Capacity>
class held_list {
 public:
  static_assert(Capacity >= 1, "a list that holds nothing proves nothing");
  static constexpr index_t capacity = Capacity;

  /// Cost: O(size()) for a column that is taken in, O(1) for one that ranks last or is not.
  UNMASK_HD void push(float logit, token_id token) {
    const std::uint64_t key = rank_key(logit, token);
    if (!(logit > -math::infinity()) || key <= keys_[Capacity - 1]) {
      return;
    }
    index_t at = full() ? Capacity - 1 : size_;
    for (; at > 0 && keys_[at - 1] < key; --at) {
      keys_[at] = keys_[at - 1];
    }
    keys_[at] = key;
    size_ += full() ? 0 : 1;
    threshold_ = full() ? (*this)[Capacity - 1].logit : -math::infinity();
  }

  /// Adds the columns held in `other`, a list of other columns of the same row.
  template <index_t Other>
  UNMASK_HD void merge(const held_list<Other>& other) {
    for (index_t i = 0; i < other.size(); ++i) {
      push(other[i].logit, other[i].token);
    }
  }

  UNMASK_HD void clear() { *this = held_list{}; }
  [[nodiscard]] UNMASK_HD index_t size() const { return size_; }
  /// True when the row may have columns that are not held; none of those ranks before the last held
  /// one.
  [[nodiscard]] UNMASK_HD bool full() const { return size_ == Capacity; }
  /// A column is not taken in if its logit is at most this and its token is higher than those
  /// pushed so far.
  [[nodiscard]] UNMASK_HD float threshold() const { return threshold_; }
  [[nodiscard]] UNMASK_HD ranked_token operator[](index_t i) const { return ranked(keys_[i]); }

 private:
  std::uint64_t keys_[Capacity] = {};
  index_t size_ = 0;
  float threshold_ = -math::infinity();
};

/// Columns held for each row of a truncating policy. State: 520 bytes a row of side memory. The
/// usual top_k is 20 to 50, and the nucleus of a language model is mostly smaller.
using held_tokens = held_list<64>;

/// Selects the columns of a row that are kept: the longest prefix of the row's order that satisfies
/// all three rules.
struct truncation {
  /// At most this many tokens.
  index_t tokens = no_token;
  /// A token is dropped if the tokens before it have a probability mass larger than this.
  float mass = 1.0F;
  /// A token is dropped if it is less probable than this times the most probable token.
  float ratio = 0.0F;
  /// The statistics are computed among the kept tokens alone, renormalised.
  bool renormalises = false;

  /// Returns the truncation that satisfies this one and `other`.
  [[nodiscard]] UNMASK_HD constexpr truncation tightened(const truncation& other) const {
    return {math::min(tokens, other.tokens),
            math::min(mass, other.mass),
            math::max(ratio, other.ratio),
            renormalises || other.renormalises};
  }

  /// True when every row of `columns` columns is kept whole.
  [[nodiscard]] UNMASK_HD constexpr bool keeps_all(index_t columns) const {
    return tokens >= columns && mass >= 1.0F && ratio <= 0.0F;
  }
};

}  // namespace unmask
