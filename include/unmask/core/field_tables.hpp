// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/plan.hpp>

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
  std::size_t neighbours = 0;  ///< of all states, under all restrictions
  std::size_t positions = 0;
};

/// The automaton of a field and its positions. The constraint writes the arrays, which are zero,
/// before the sequence starts: all but the sets of the positions, of which it writes set 0 of both
/// ends.
struct field_tables {
  static constexpr std::uint32_t no_class = 0xffffffffU;

  field_sizes n;

  /// By token: its class, or no_class.
  std::uint32_t* class_of = nullptr;
  /// The edges of class c are [first_edge[c], first_edge[c + 1]): by the state that they leave, and
  /// by the state that they enter.
  std::uint32_t* first_edge = nullptr;
  std::uint32_t* edge_from = nullptr;
  std::uint32_t* edge_next = nullptr;
  std::uint32_t* back_from = nullptr;
  std::uint32_t* back_next = nullptr;
  /// By class: its lowest token that may be proposed, no_token if there is none, and whether there
  /// are more.
  token_id* lowest_of = nullptr;
  std::uint8_t* has_several = nullptr;
  /// By restriction and class: whether the class may occur.
  std::uint8_t* usable = nullptr;
  /// By restriction and state: the states after it, and before it, by a class that may occur.
  std::uint32_t* first_after = nullptr;
  std::uint32_t* after = nullptr;
  std::uint32_t* first_before = nullptr;
  std::uint32_t* before = nullptr;

  /// By position: the class of its token, or classes + restriction if it is masked; and that sum.
  std::uint32_t* symbols = nullptr;
  std::uint32_t* masked_symbols = nullptr;
  /// [positions + 1][states]: set j from the left is that before position j, set j from the right
  /// that after position size - 1 - j.
  std::uint8_t* left = nullptr;
  std::uint8_t* right = nullptr;

  range where;        ///< positions of the sequence
  bool fills = true;  ///< as constrained_field::fill
};

}  // namespace unmask::detail
