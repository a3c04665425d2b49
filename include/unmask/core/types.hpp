// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/config.hpp>

#include <cstddef>
#include <cstdint>

namespace UNMASK_NAMESPACE {

/// A count or an index of positions, rows, tokens, slots. Memory offsets use std::ptrdiff_t.
using index_t = std::int32_t;

/// A token of the vocabulary, 0 .. vocab - 1; the global index, also if the vocabulary is sharded.
using token_id = std::int32_t;

/// No token: larger than every token, so that a tie never goes to it.
inline constexpr token_id no_token = 0x7fffffff;

/// An entry of a part's list of tokens: no_token, an empty entry, unless it is given. (With a plain
/// token_id, the unused entries of a larger list would be token 0.)
struct listed_token {
  token_id token = no_token;  ///< The token, or no_token.

  constexpr listed_token() = default;
  /// An entry that is given.
  UNMASK_HD constexpr listed_token(token_id given)  // NOLINT(google-explicit-constructor): a token
      : token(given) {}
  /// The token, or no_token.
  UNMASK_HD constexpr operator token_id() const { return token; }  // NOLINT: as above
};

/// A half-open range of positions [first, last).
struct range {
  index_t first = 0;  ///< First position of the range.
  index_t last = 0;   ///< One past the last position.

  /// Number of positions; below 0 where last < first.
  [[nodiscard]] UNMASK_HD constexpr index_t size() const { return last - first; }
  /// True if no position is in the range.
  [[nodiscard]] UNMASK_HD constexpr bool empty() const { return last <= first; }
  /// True if first <= position < last.
  [[nodiscard]] UNMASK_HD constexpr bool contains(index_t position) const {
    return first <= position && position < last;
  }
  friend bool operator==(const range&, const range&) = default;  ///< Equal if both ends are.
};

/// A logit stored as bfloat16: the upper half of a float.
struct bfloat16 {
  std::uint16_t bits = 0;  ///< Sign, 8 bits of exponent, 7 of fraction.
};

/// A logit stored as IEEE 754 binary16.
struct float16 {
  std::uint16_t bits = 0;  ///< Sign, 5 bits of exponent, 10 of fraction.
};

/// Memory space of a view. Part of the view's type, so that host memory passed to a device session
/// does not compile.
enum class memory : unsigned char { host, device };

}  // namespace unmask
