// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/constraint.hpp>

#include <cstddef>
#include <cstdint>
#include <mata/nfa/algorithms.hh>
#include <mata/nfa/nfa.hh>
#include <mata/parser/re2parser.hh>
#include <stdexcept>
#include <string>
#include <vector>

namespace libmata {

/// The automaton over bytes of a regular expression, compiled by libmata: RE2's syntax, of which a
/// string of the language matches the whole; `^`, `$` and `\b` are ignored. Minimal.
///
/// Errors: std::runtime_error for an expression of no string, and for one whose automaton has more
/// than `most_states` states before it is minimised. **A malformed expression ends the process**
/// with status 1 and a message on the standard error output: libmata does, so that untrusted
/// expressions are compiled in a process of their own, which main.cpp is.
[[nodiscard]] inline unmask::byte_table table_of(const std::string& expression,
                                                 std::size_t most_states = std::size_t{1} << 16U) {
  namespace nfa = mata::nfa;
  const auto parsed = [](const std::string& text, Encoding encoding) {
    constexpr bool has_epsilon = false;
    constexpr bool is_reduced = false;
    constexpr mata::Symbol epsilon = 306;  // no byte
    return mata::parser::create_nfa(text, has_epsilon, epsilon, is_reduced, encoding);
  };
  // RE2 lets a class of many characters take bytes that are none: overlong forms, surrogates.
  const nfa::Nfa characters = parsed(
      R"(([\x00-\x7f]|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|)"
      R"([\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]|)"
      R"(\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2})*)",
      Encoding::Latin1);
  const nfa::Nfa language = nfa::intersection(parsed(expression, Encoding::Utf8), characters);
  bool is_whole = true;
  const nfa::Nfa deterministic = nfa::determinize(
      language, nullptr, [&](const nfa::Nfa& so_far, nfa::State, const nfa::StateSet&) {
        is_whole = so_far.num_of_states() <= most_states;
        return is_whole;
      });
  if (!is_whole) {
    throw std::runtime_error("expression: more than " + std::to_string(most_states) +
                             " states: repeat fewer times, or raise most_states");
  }
  const nfa::Nfa least = nfa::algorithms::minimize_hopcroft(nfa::Nfa(deterministic).trim());
  if (least.initial.empty() || least.final.empty()) {
    throw std::runtime_error("expression: it is of no string");
  }

  const std::size_t states = least.num_of_states();
  unmask::byte_table out{std::vector<std::uint32_t>(256 * states, unmask::dead_state),
                         std::vector<std::uint8_t>(states),
                         static_cast<std::uint32_t>(*least.initial.begin())};
  for (const nfa::State q : least.final) {
    out.accepting[q] = 1;
  }
  for (const nfa::Transition& t : least.delta.transitions()) {
    out.next[256 * t.source + t.symbol] = static_cast<std::uint32_t>(t.target);
  }
  return out;
}

}  // namespace libmata
