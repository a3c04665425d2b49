// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/c_api/calls.hpp>
#include <unmask/c_api/constraint_calls.hpp>
#include <unmask/c_language.h>
#include <unmask/language.hpp>

#include <algorithm>

// The calls of c_language.h. For c_library.hpp, which defines them.

/// A language of the C interface.
struct unmask_language {
  unmask::language::automaton bytes;
};

namespace UNMASK_NAMESPACE::detail::c_api {

inline unmask_language_options language_options(const unmask_language_options* options,
                                                std::uint32_t flags) {
  unmask_language_options o = UNMASK_LANGUAGE_OPTIONS_INIT;
  if (options != nullptr) {
    o = known_part_of(options, o, "options");
  }
  check_argument((o.flags & ~flags) == 0,
                 "options->flags",
                 o.flags,
                 "a sum of the unmask_language_flags of this kind, which is at most ",
                 flags);
  check_field(o.reserved == 0, "options", "reserved", o.reserved, "0");
  return o;
}

inline language::compile_limits limits_of(const unmask_language_options& o) {
  return {.states = o.states, .positions = o.positions, .milliseconds = o.milliseconds};
}

inline language::compiled expression_of(std::string_view text,
                                        const unmask_language_options* options) {
  const unmask_language_options o = language_options(
      options, UNMASK_SEARCH | UNMASK_STRICT | UNMASK_JSON_STRING | UNMASK_UNICODE_ESCAPES);
  return language::compile_expression(text,
                                      {.limits = limits_of(o),
                                       .form = (o.flags & UNMASK_JSON_STRING) != 0
                                                   ? language::text_form::json_string
                                                   : language::text_form::utf8,
                                       .search = (o.flags & UNMASK_SEARCH) != 0,
                                       .strict = (o.flags & UNMASK_STRICT) != 0,
                                       .unicode_escapes = (o.flags & UNMASK_UNICODE_ESCAPES) != 0});
}

inline language::compiled grammar_of(std::string_view text,
                                     const unmask_language_options* options) {
  const unmask_language_options o = language_options(options, 0);
  language::grammar_options of{.limits = limits_of(o), .recursion = o.recursion};
  if (o.root != nullptr) {
    of.root = o.root;
  }
  return language::compile_grammar(text, of);
}

// Compiles with the options of schemas.
template <class Compile>
language::compiled
with_schemas(std::string_view text, const unmask_language_options* options, Compile compile) {
  const unmask_language_options o =
      language_options(options,
                       UNMASK_UNICODE_ESCAPES | UNMASK_OPEN_OBJECTS | UNMASK_INTEGER_FRACTIONS |
                           UNMASK_REFUSE_UNKNOWN_FORMATS);
  language::schema_options of{.limits = limits_of(o),
                              .any_depth = o.any_depth,
                              .recursion = o.recursion,
                              .longest = o.longest,
                              .closed_objects = (o.flags & UNMASK_OPEN_OBJECTS) == 0,
                              .unicode_escapes = (o.flags & UNMASK_UNICODE_ESCAPES) != 0,
                              .integer_fractions = (o.flags & UNMASK_INTEGER_FRACTIONS) != 0,
                              .refuse_unknown_formats =
                                  (o.flags & UNMASK_REFUSE_UNKNOWN_FORMATS) != 0};
  if (o.whitespace != nullptr) {
    of.whitespace = o.whitespace;
  }
  return compile(text, of);
}

inline language::compiled
language_of(std::int32_t kind, std::string_view text, const unmask_language_options* options) {
  switch (kind) {
  case UNMASK_EXPRESSION:
    return expression_of(text, options);
  case UNMASK_JSON_SCHEMA:
    return with_schemas(text, options, language::compile_schema);
  case UNMASK_GRAMMAR:
    return grammar_of(text, options);
  default:
    return with_schemas(text, options, language::compile_structural_tag);
  }
}

}  // namespace UNMASK_NAMESPACE::detail::c_api

// NOLINTBEGIN(misc-definitions-in-headers): one file defines them
extern "C" {

unmask_status unmask_language_new(std::int32_t kind,
                                  const char* text,
                                  std::size_t size,
                                  const unmask_language_options* options,
                                  unmask_language** language) {
  return guarded([&] {
    needed(language, "language") = nullptr;
    check_argument(kind >= UNMASK_EXPRESSION && kind <= UNMASK_STRUCTURAL_TAG,
                   "kind",
                   kind,
                   "one of unmask_language_kinds");
    check_argument(text != nullptr || size == 0, "text", "null", "a pointer");
    const std::string_view given = size == 0 ? std::string_view() : std::string_view(text, size);
    unmask::language::compiled made = language_of(kind, given, options);
    if (!made) {
      throw std::invalid_argument(made.refused->message);
    }
    *language = new unmask_language{std::move(made.bytes)};
  });
}

void unmask_language_free(unmask_language* language) {
  delete language;
}

std::uint32_t unmask_language_states(const unmask_language* language) {
  return language == nullptr ? 0 : static_cast<std::uint32_t>(language->bytes.states());
}

unmask_status unmask_language_accepts(const unmask_language* language,
                                      const char* text,
                                      std::size_t size,
                                      std::int32_t* accepts) {
  return guarded([&] {
    const unmask_language& l = needed(language, "language");
    check_argument(text != nullptr || size == 0, "text", "null", "a pointer");
    const std::string_view given = size == 0 ? std::string_view() : std::string_view(text, size);
    needed(accepts, "accepts") = l.bytes.accepts(given) ? 1 : 0;
  });
}

unmask_status unmask_language_table(const unmask_language* language,
                                    std::uint32_t* next,
                                    std::uint8_t* accepting,
                                    unmask_byte_automaton* automaton) {
  return guarded([&] {
    const unmask::language::automaton& from = needed(language, "language").bytes;
    check_argument(next != nullptr, "next", "null", "a pointer");
    check_argument(accepting != nullptr, "accepting", "null", "a pointer");
    unmask_byte_automaton answer = UNMASK_BYTE_AUTOMATON_INIT;
    answer.states = static_cast<std::uint32_t>(from.states());
    answer.next = next;
    answer.accepting = accepting;
    answer.start = from.start;
    give(automaton, answer, "automaton");
    std::fill_n(next, 256 * from.states(), unmask::dead_state);
    for (std::size_t s = 0; s < from.states(); ++s) {
      for (const unmask::language::run& r : from.runs[s]) {
        std::fill(next + 256 * s + r.first, next + 256 * s + r.last + 1, r.next);
      }
    }
    std::copy(from.accepting.begin(), from.accepting.end(), accepting);
  });
}

unmask_status unmask_language_constraint(const unmask_language* language,
                                         const unmask_vocabulary* vocabulary,
                                         const unmask_constraint_limits* limits,
                                         unmask_constraint** constraint) {
  return make_constraint(constraint, [&] {
    const unmask::language::automaton& from = needed(language, "language").bytes;
    const unmask::vocabulary& words = needed(vocabulary, "vocabulary").words;
    const unmask::constraint_limits most = limits_of(limits);
    check_argument(from.states() <= most.states,
                   "language",
                   from.states(),
                   "of at most unmask_constraint_limits::states = ",
                   most.states,
                   " states: a maxLength of hundreds counts every character");
    return unmask::constraint(from.table(), words, most);
  });
}

}  // extern "C"
// NOLINTEND(misc-definitions-in-headers)
