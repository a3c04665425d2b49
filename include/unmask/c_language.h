// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef UNMASK_C_LANGUAGE_H
#define UNMASK_C_LANGUAGE_H

#include <unmask/c_constraints.h>

/// \file
/// Compilers of regular expressions, JSON Schemas, grammars and structural tags: the languages of
/// unmask_constraint_new().
/// Everything about errors and structures in <unmask/c_api.h> holds here. A language does not
/// change: several threads may read one at the same time.

#ifdef __cplusplus
extern "C" {
#endif

/// Kinds of texts that describe a language.
enum unmask_language_kinds {
  UNMASK_EXPRESSION = 0,  ///< a regular expression of ECMA-262 with flag u: as compile_expression()
  UNMASK_JSON_SCHEMA = 1,    ///< a JSON Schema of draft 2020-12 or 7: as compile_schema()
  UNMASK_GRAMMAR = 2,        ///< a grammar in the notation of llama.cpp: as compile_grammar()
  UNMASK_STRUCTURAL_TAG = 3  ///< texts between tags: as compile_structural_tag()
};

/// Bits of unmask_language_options::flags. The options of schemas also apply to structural tags.
enum unmask_language_flags {
  /// of expressions: any text that has a match in it; otherwise the whole text is the match
  UNMASK_SEARCH = 1,
  /// of expressions: refuse what is an error with flag u although it has one meaning
  UNMASK_STRICT = 2,
  /// of expressions: the strings as JSON strings, with their quotes, in one spelling
  UNMASK_JSON_STRING = 4,
  /// of expressions and schemas, in JSON strings: characters below U+0020 without a short escape,
  /// in four hexadecimal
  /// digits; otherwise they are in no string
  UNMASK_UNICODE_ESCAPES = 8,
  /// of schemas: names that are not listed, where `properties` is and nothing says more
  UNMASK_OPEN_OBJECTS = 16,
  /// of schemas: an integer may have a fraction of zeros, as 1.0 has
  UNMASK_INTEGER_FRACTIONS = 32,
  /// of schemas: refuse a `format` that the compiler does not have
  UNMASK_REFUSE_UNKNOWN_FORMATS = 64
};

/// A language: a deterministic automaton over bytes. Opaque.
typedef struct unmask_language unmask_language;

/// How a text is compiled: as compile_limits, expression_options, schema_options and
/// grammar_options. Members of schemas also apply to structural tags.
typedef struct unmask_language_options {
  uint32_t struct_size;    ///< sizeof of the structure, as the caller knows it
  uint32_t flags;          ///< a sum of unmask_language_flags that the kind has
  uint32_t states;         ///< most states of any automaton on the way
  uint32_t positions;      ///< most positions of a nondeterministic automaton, 40 bytes each
  uint32_t milliseconds;   ///< longest time
  uint32_t any_depth;      ///< of schemas: levels of a value that a schema says nothing about
  uint32_t recursion;      ///< how often a schema, or a rule of a grammar, is entered in itself
  uint32_t reserved;       ///< must be 0
  uint64_t longest;        ///< of schemas: bytes of the longest answer, or 0 if it is not known
  const char* whitespace;  ///< of schemas: an expression for space; null for " ?"
  const char* root;        ///< of grammars: the rule of whole texts; null for "root"
} unmask_language_options;
/// Initialises unmask_language_options with its defaults.
#define UNMASK_LANGUAGE_OPTIONS_INIT                                                               \
  {(uint32_t)sizeof(unmask_language_options), 0, 262144, 8000000, 10000, 2, 3, 0, 0, NULL, NULL}

/// Compiles a text of `size` bytes, one of unmask_language_kinds, to its language. `options` may be
/// null. A text that is refused is UNMASK_INVALID_ARGUMENT: unmask_last_error() begins with its
/// place: the column of an expression, the JSON pointer of a keyword, the line and the column of a
/// grammar.
UNMASK_API unmask_status unmask_language_new(int32_t kind,
                                             const char* text,
                                             size_t size,
                                             const unmask_language_options* options,
                                             unmask_language** language);
/// Frees a language, which no constraint needs any more; null has no effect.
UNMASK_API void unmask_language_free(unmask_language* language);
/// Number of states; 0 for null.
UNMASK_API uint32_t unmask_language_states(const unmask_language* language);
/// Writes into `accepts` 1 if the `size` bytes are a string of the language, 0 if not.
UNMASK_API unmask_status unmask_language_accepts(const unmask_language* language,
                                                 const char* text,
                                                 size_t size,
                                                 int32_t* accepts);
/// Writes the table of the language: `next` has unmask_language_states() * 256 entries, `accepting`
/// unmask_language_states(), and `automaton`, for unmask_constraint_new(), points to both.
UNMASK_API unmask_status unmask_language_table(const unmask_language* language,
                                               uint32_t* next,
                                               uint8_t* accepting,
                                               unmask_byte_automaton* automaton);
/// Lifts a language to the tokens of a vocabulary: unmask_constraint_new() of its table. `limits`
/// may be null.
UNMASK_API unmask_status unmask_language_constraint(const unmask_language* language,
                                                    const unmask_vocabulary* vocabulary,
                                                    const unmask_constraint_limits* limits,
                                                    unmask_constraint** constraint);

#ifdef __cplusplus
}
#endif

#endif  // UNMASK_C_LANGUAGE_H
