// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/language/automaton.hpp>

#include <cstdint>
#include <string_view>

namespace UNMASK_NAMESPACE::language {

/// How a schema is read, and how its values are written.
struct schema_options {
  /// Limits of the compilation.
  compile_limits limits;
  /// The space behind [ { , and : and in front of ] } , and :, an expression of spaces, tabs, line
  /// feeds and carriage returns. "" for none; "[ \n]*" for any number of blanks and line feeds.
  std::string_view whitespace = " ?";
  /// The depth of lists and objects in values of any kind, where the schema has no rule.
  std::uint32_t any_depth = 2;
  /// A schema that refers to itself is entered this number of times, one in the other.
  std::uint32_t recursion = 3;
  /// Length of the longest answer in bytes, or 0 if it is not known: bounds that no such answer can
  /// reach are left out.
  std::uint64_t longest = 0;
  /// An object whose schema has `properties`, but no `additionalProperties` or
  /// `unevaluatedProperties`, has no other names, unless `minProperties` asks for more.
  bool closed_objects = true;
  /// Characters below U+0020 that have no short escape are written with four hexadecimal digits;
  /// otherwise they are in no string, which saves a third of the states of a long one.
  bool unicode_escapes = false;
  /// An integer may have a fraction of zeros, as 1.0 has.
  bool integer_fractions = false;
  /// Refuse a `format` that the compiler does not have; otherwise it says nothing, as JSON Schema
  /// has it.
  bool refuse_unknown_formats = false;
};

/// Compiles a JSON Schema, of draft 2020-12 or 7, to the texts of JSON that obey it.
///
///     const auto person = unmask::language::compile_schema(
///         R"({"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]})");
///     person.bytes.accepts(R"({"age": 73})");  // true
///
/// Every text of the automaton obeys the schema: each keyword is kept, or the schema is refused
/// with its place. Some texts that obey are left out, all of them named in language/README.md:
/// members of `properties` are in the order of the schema and before others, each character
/// has one spelling, a number with bounds has no exponent, recursion ends somewhere.
///
/// Cost: a millisecond for most; that of the automaton in general.
/// Errors: by value, with the place of the keyword as a JSON pointer: keywords that no automaton of
/// bearable size keeps, malformed schemas, references to other documents, limits, a schema that no
/// value obeys.
[[nodiscard]] UNMASK_LIBRARY compiled compile_schema(std::string_view schema,
                                                     const schema_options& options = {});

}  // namespace UNMASK_NAMESPACE::language

#if UNMASK_DEFINES
#  include <unmask/language/schema_compiler.hpp>
#endif
