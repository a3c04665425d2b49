// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/language/automaton.hpp>

#include <string_view>

namespace UNMASK_NAMESPACE::language {

/// How an expression is read, and how its strings are written.
struct expression_options {
  /// Limits of the compilation.
  compile_limits limits;
  /// How the strings are written.
  text_form form = text_form::utf8;
  /// Any text that has a match in it, as `pattern` of JSON Schema means it; otherwise the whole
  /// text is the match.
  bool search = false;
  /// Refuse what is an error with flag u although it has one meaning, as \- and \@.
  bool strict = false;
  /// With text_form::json_string: characters below U+0020 that have no short escape are written
  /// with four hexadecimal digits; otherwise they are in no string, which saves a third of the
  /// states of a long one.
  bool unicode_escapes = true;
};

/// Compiles a regular expression of ECMA-262 with flag u, which is what JSON Schema asks for.
///
///     const auto date = unmask::language::compile_expression("[0-9]{4}-[0-9]{2}");
///     if (!date) std::puts(date.refused->message.c_str());
///
/// Cost: that of the automaton; microseconds to milliseconds for most. [a-z]{0,1000} has 1,001
/// states, but .*a.{12} has 8,192, as any deterministic automaton of it has.
/// Look-ahead, look-behind and word boundaries are exact, and may multiply the states.
/// Errors: by value, with the column: look-ahead in look-behind, back references, properties of
/// Unicode that are not general categories, malformed expressions; a text that is not UTF-8;
/// limits; an expression that matches nothing.
[[nodiscard]] UNMASK_LIBRARY compiled compile_expression(std::string_view expression,
                                                         const expression_options& options = {});

}  // namespace UNMASK_NAMESPACE::language

#if UNMASK_DEFINES
#  include <unmask/language/expression_compiler.hpp>
#endif
