// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/language/automaton.hpp>

#include <cstdint>
#include <string_view>

namespace UNMASK_NAMESPACE::language {

/// How a grammar is read.
struct grammar_options {
  /// Limits of the compilation.
  compile_limits limits;
  /// The rule that whole texts obey.
  std::string_view root = "root";
  /// Rules that lead to themselves are entered this number of times, one in the other; at least 1.
  /// A rule that leads to itself at its beginning only, or at its end only, repeats without a
  /// bound.
  std::uint32_t recursion = 3;
};

/// Compiles a grammar in the notation of llama.cpp (GBNF), which is also the EBNF of xgrammar, and
/// so the one of vLLM and SGLang.
///
///     const auto sum = unmask::language::compile_grammar(R"(
///         root ::= term ("+" term)*
///         term ::= [0-9]+ | "(" root ")"
///     )");
///     sum.bytes.accepts("1+(2+3)");  // true
///
/// Every text of the automaton is in the language of the grammar. Only texts in which a rule
/// contains itself more than `recursion` times are left out: an automaton has no stack.
///
/// Cost: that of the automaton, whose states grow by a factor with each level of recursion: about 2
/// for JSON, 4 for SQL. They are counted while rules are expanded.
/// Errors: by value, with the line and the column: malformed grammars, rules that are not defined
/// or defined twice, look-ahead, tokens, macros and options of rules; a text that is not UTF-8;
/// limits; a grammar without a text.
[[nodiscard]] UNMASK_LIBRARY compiled compile_grammar(std::string_view grammar,
                                                      const grammar_options& options = {});

}  // namespace UNMASK_NAMESPACE::language

#if UNMASK_DEFINES
#  include <unmask/language/grammar_compiler.hpp>
#endif
