// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/constraint/byte_automaton.hpp>
#include <unmask/constraint/token_automaton.hpp>
#include <unmask/constraint/vocabulary.hpp>

#include <cstdint>
#include <span>

namespace UNMASK_NAMESPACE {

/// Limits of a constraint. Languages come from requests: a small regular expression may need
/// millions of states.
struct constraint_limits {
  /// Most states of the automaton over tokens.
  std::uint32_t states = 65'536;
  /// Most states between tokens whose rows differ by more than a distance. In a counted string
  /// (maxLength) only the rows of the last characters do. Each costs a walk through the vocabulary,
  /// about 0.3 ms for 150,000 tokens.
  std::uint32_t rows = 4096;
  /// Bytes of the memory of sets and masks that all sequences of a constraint share, without the
  /// automaton. Allocated once; a start allocates more if its sequence and those that run need more
  /// sets than there is room for, two for each position.
  std::size_t bytes = std::size_t{64} << 20U;
  /// Most sets, masks and remembered results, each; fewer if `bytes` are not enough.
  std::uint32_t entries = std::uint32_t{1} << 20U;
};

/// A transition of an automaton over tokens.
struct token_transition {
  std::uint32_t from = 0;     ///< The state before the token.
  token_id token = no_token;  ///< The token.
  std::uint32_t next = 0;     ///< The state after it.
};

namespace detail::constraints {

/// Lifts the smallest automaton of the same language to the tokens of a vocabulary. Errors:
/// std::invalid_argument if the automaton is malformed, has too many states or rows, or has no
/// string that the tokens can write. Cost: O(rows * nodes of the trie that are alive there), 0.3 to
/// 1 s for 1,200 rows and 150,000 tokens; and O(states * bytes of the longest token).
[[nodiscard]] UNMASK_LIBRARY token_automaton lift(const byte_automaton& bytes,
                                                  const vocabulary_data& words,
                                                  const constraint_limits& limits);

/// The automaton of a list of transitions. Those of EOS tokens are replaced by the library's.
[[nodiscard]] UNMASK_LIBRARY token_automaton
automaton_of(std::span<const token_transition> transitions,
             std::uint32_t states,
             std::uint32_t start,
             std::span<const std::uint8_t> accepting,
             const model_info& model,
             std::span<const token_id> also_eos,
             std::uint32_t most_states);

}  // namespace detail::constraints

}  // namespace unmask

#if UNMASK_DEFINES
#  include <unmask/constraint/lift_tables.hpp>
#endif
