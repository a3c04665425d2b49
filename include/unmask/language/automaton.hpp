// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/constraint/byte_automaton.hpp>
#include <unmask/core/config.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Compilers of texts that describe a language: a regular expression, a JSON Schema, a grammar.
/// Each makes the smallest deterministic automaton over bytes, or says why it does not.
namespace UNMASK_NAMESPACE::language {

/// Limits of one compilation. Texts come from requests: a short one may need millions of states.
struct compile_limits {
  /// Most states of any automaton on the way.
  std::uint32_t states = 262'144;
  /// Most positions and runs of a nondeterministic automaton, members of the sets of one that is
  /// made deterministic, and runs of any automaton; at most 50 bytes each.
  std::uint32_t positions = 8'000'000;
  /// Longest time in milliseconds, looked at every few microseconds.
  std::uint32_t milliseconds = 10'000;
};

/// How the strings of a language are written.
enum class text_form : std::uint8_t {
  utf8,         ///< Plain UTF-8.
  json_string,  ///< A JSON string with its quotes, each character in one spelling only.
};

/// Why a text was not compiled.
struct refusal {
  std::string message;     ///< A sentence with the place in front.
  std::string place;       ///< JSON pointer into a schema; empty for other texts.
  std::size_t column = 0;  ///< Character of an expression, from 1; 0 if no character is to blame.
  std::size_t line = 0;    ///< Line of a grammar, from 1, in which `column` counts.
};

/// The symbols first .. last of a state, and the state after them.
struct run {
  std::uint32_t first = 0;  ///< First symbol.
  std::uint32_t last = 0;   ///< Last symbol.
  std::uint32_t next = 0;   ///< The state after it.

  /// Member by member.
  bool operator==(const run&) const = default;
};

/// A deterministic automaton by runs of symbols: bytes, or code points on the way to bytes. A
/// symbol in no run of a state is in no string there. Without states: the empty language.
///
/// State: 1.7 to 3 runs of 12 bytes for most states, where a table has 1,024 bytes.
struct automaton {
  std::vector<std::vector<run>> runs;   ///< [states]: ascending and disjoint.
  std::vector<std::uint8_t> accepting;  ///< [states]: 1 where a string may end.
  std::uint32_t start = 0;              ///< The state before the first symbol.

  /// Number of states.
  [[nodiscard]] std::size_t states() const { return accepting.size(); }
  /// Whether no string is in the language.
  [[nodiscard]] bool empty() const { return accepting.empty(); }
  /// The state after a symbol, or dead_state. Cost: O(log(runs of the state)).
  [[nodiscard]] std::uint32_t after(std::uint32_t state, std::uint32_t symbol) const {
    const std::vector<run>& of = runs[state];
    std::size_t low = 0;
    std::size_t high = of.size();
    while (low < high) {
      const std::size_t middle = (low + high) / 2;
      if (of[middle].last < symbol) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low < of.size() && of[low].first <= symbol ? of[low].next : dead_state;
  }
  /// Whether a text is a string of the language, byte by byte.
  [[nodiscard]] bool accepts(std::string_view text) const {
    std::uint32_t state = empty() ? dead_state : start;
    for (const char c : text) {
      if (state == dead_state) {
        return false;
      }
      state = after(state, static_cast<unsigned char>(c));
    }
    return state != dead_state && accepting[state] != 0;
  }
  /// Returns the automaton as a table, of 1 kB a state. Call it for automata over bytes.
  [[nodiscard]] byte_table table() const {
    byte_table out;
    out.next.assign(256 * states(), dead_state);
    out.accepting = accepting;
    out.start = start;
    for (std::size_t s = 0; s < states(); ++s) {
      for (const run& r : runs[s]) {
        for (std::size_t b = r.first; b <= r.last; ++b) {
          out.next[256 * s + b] = r.next;
        }
      }
    }
    return out;
  }
};

/// Result of a compiler: an automaton over bytes, smallest and not empty, or a refusal.
struct compiled {
  automaton bytes;                 ///< No states where the text was refused.
  std::optional<refusal> refused;  ///< Why not.

  /// Whether the text was compiled.
  explicit operator bool() const { return !refused.has_value(); }
};

}  // namespace UNMASK_NAMESPACE::language
