// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/constraint_rule.hpp>

#include <cstddef>
#include <cstdint>

/// A constrained field as plain tables, for backends whose steps call nothing of the host.
namespace UNMASK_NAMESPACE::detail {

/// Sizes of the arrays of a field.
struct field_sizes {
  std::size_t vocab = 0;
  std::size_t states = 0;
  std::size_t classes = 0;
  std::size_t edges = 0;
  std::size_t restrictions = 0;
  std::size_t after = 0;  ///< words of the rows of neighbours
  std::size_t before = 0;
  std::size_t positions = 0;

  /// Words of a set of states, a bit a state.
  [[nodiscard]] UNMASK_HD constexpr std::size_t words() const { return (states + 31) / 32; }
};

/// The automaton of a field and its positions. The constraint writes the arrays, which are zero,
/// and the state before the sequence starts: all but the sets of the positions; of these it writes
/// set 0 of both ends.
struct field_tables : field_state {
  static constexpr std::uint32_t no_class = 0xffffffffU;

  field_sizes n;

  /// By token: its class, or no_class.
  std::uint32_t* class_of = nullptr;
  /// By class, the edges that leave a state of word w of a set are [leaving[w], leaving[w + 1]), by
  /// that state, and those that enter one [entering[w], entering[w + 1]) of the arrays `back_`, by
  /// that one: words + 1 numbers each.
  std::uint32_t* leaving = nullptr;
  std::uint32_t* entering = nullptr;
  std::uint32_t* edge_from = nullptr;
  std::uint32_t* edge_next = nullptr;
  std::uint32_t* back_from = nullptr;
  std::uint32_t* back_next = nullptr;
  /// The edges that leave state q are [first_out[q], first_out[q + 1]): by their class.
  std::uint32_t* first_out = nullptr;
  std::uint32_t* out_class = nullptr;
  std::uint32_t* out_next = nullptr;
  /// By class: its lowest token that may be proposed, no_token if there is none, and whether there
  /// are more.
  token_id* lowest_of = nullptr;
  std::uint8_t* has_several = nullptr;
  /// By restriction and class: whether the class may occur.
  std::uint8_t* usable = nullptr;
  /// By restriction and state: the row of the states after it, and before it, by a class that may
  /// occur. A row with the words of a set is a set, a shorter row is a list.
  std::uint32_t* first_after = nullptr;
  std::uint32_t* after = nullptr;
  std::uint32_t* first_before = nullptr;
  std::uint32_t* before = nullptr;

  /// By position: the class of its token, or classes + restriction if it is masked; and that sum.
  std::uint32_t* symbols = nullptr;
  std::uint32_t* masked_symbols = nullptr;
  /// [positions + 1][words of a set]: set j from the left is that before position j, set j from the
  /// right that after position size - 1 - j.
  std::uint32_t* left = nullptr;
  std::uint32_t* right = nullptr;
};

}  // namespace unmask::detail
