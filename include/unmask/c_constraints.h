// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef UNMASK_C_CONSTRAINTS_H
#define UNMASK_C_CONSTRAINTS_H

#include <unmask/c_api.h>

/// \file
/// Answers that obey a regular language: unmask_sequence::constraints. Everything about errors and
/// structures in <unmask/c_api.h> holds here. One thread at a time may use the sessions that share
/// a constraint; unmask_constraint_another() makes one for another thread.

#ifdef __cplusplus
extern "C" {
#endif

/// The bytes of each token of a model. Opaque.
typedef struct unmask_vocabulary unmask_vocabulary;

/// The bytes of a token.
typedef struct unmask_token_bytes {
  const char* data;  ///< may be null if there are none
  size_t size;       ///< number of bytes; 0 for a token without text
} unmask_token_bytes;

/// A deterministic automaton over bytes: as byte_automaton.
typedef struct unmask_byte_automaton {
  uint32_t struct_size;      ///< sizeof of the structure, as the caller knows it
  uint32_t states;           ///< number of states
  const uint32_t* next;      ///< [states][256]: the state after each byte, or UINT32_MAX
  const uint8_t* accepting;  ///< [states]: not 0 where a string may end
  uint32_t start;            ///< the state before the first byte
  uint32_t reserved;         ///< must be 0
} unmask_byte_automaton;
/// Initialises unmask_byte_automaton with its defaults.
#define UNMASK_BYTE_AUTOMATON_INIT {(uint32_t)sizeof(unmask_byte_automaton), 0, NULL, NULL, 0, 0}

/// A transition over tokens.
typedef struct unmask_token_transition {
  uint32_t from;  ///< the state before the token
  int32_t token;  ///< the token
  uint32_t next;  ///< the state after it
} unmask_token_transition;

/// Limits of a constraint: as constraint_limits.
typedef struct unmask_constraint_limits {
  uint32_t struct_size;  ///< sizeof of the structure, as the caller knows it
  uint32_t states;       ///< most states over tokens
  uint64_t bytes;        ///< memory of its sets and masks
} unmask_constraint_limits;
/// Initialises unmask_constraint_limits with its defaults.
#define UNMASK_CONSTRAINT_LIMITS_INIT                                                              \
  {(uint32_t)sizeof(unmask_constraint_limits), 65536, (uint64_t)64 << 20}

/// Takes the bytes of each of the options->vocab tokens; of the options the model counts.
/// `also_eos` are further tokens that end an answer, in addition to unmask_options::eos_token.
UNMASK_API unmask_status unmask_vocabulary_new(const unmask_token_bytes* tokens,
                                               int32_t count,
                                               const unmask_options* options,
                                               const int32_t* also_eos,
                                               int32_t also_eos_count,
                                               unmask_vocabulary** vocabulary);
/// Frees a vocabulary, which no constraint needs any more; null has no effect.
UNMASK_API void unmask_vocabulary_free(unmask_vocabulary* vocabulary);

/// Lifts an automaton to the tokens of a vocabulary. `limits` may be null.
UNMASK_API unmask_status unmask_constraint_new(const unmask_byte_automaton* automaton,
                                               const unmask_vocabulary* vocabulary,
                                               const unmask_constraint_limits* limits,
                                               unmask_constraint** constraint);
/// Like unmask_constraint_new(), from a file of write_byte_table(), or of unmask.constraints.save()
/// in Python.
UNMASK_API unmask_status unmask_constraint_read(const char* file,
                                                const unmask_vocabulary* vocabulary,
                                                const unmask_constraint_limits* limits,
                                                unmask_constraint** constraint);
/// A language given by transitions over tokens; `accepting` has a byte for each state.
UNMASK_API unmask_status
unmask_constraint_from_transitions(const unmask_token_transition* transitions,
                                   size_t count,
                                   uint32_t states,
                                   uint32_t start,
                                   const uint8_t* accepting,
                                   const unmask_vocabulary* vocabulary,
                                   const unmask_constraint_limits* limits,
                                   unmask_constraint** constraint);
/// A constraint of the same language with separate memory, for sessions of another thread.
UNMASK_API unmask_status unmask_constraint_another(const unmask_constraint* constraint,
                                                   unmask_constraint** another);
/// Frees a constraint; sequences keep what they need of it. Null has no effect.
UNMASK_API void unmask_constraint_free(unmask_constraint* constraint);
/// Fewest tokens of a string of the language; 0 for null.
UNMASK_API int32_t unmask_constraint_shortest(const unmask_constraint* constraint);
/// Writes into `accepts` 1 if the tokens are a string of the language, with or without EOS tokens
/// after it, 0 if not.
UNMASK_API unmask_status unmask_constraint_accepts(const unmask_constraint* constraint,
                                                   const int32_t* tokens,
                                                   int32_t count,
                                                   int32_t* accepts);
/// The state of a constrained field of the sequence in a slot after its committed prefix:
/// unmask_constrained_field::state of the next block is 1 more.
UNMASK_API unmask_status unmask_constraint_state(unmask_session* session,
                                                 int32_t slot,
                                                 uint32_t field,
                                                 uint32_t* state);

#ifdef __cplusplus
}
#endif

#endif  // UNMASK_C_CONSTRAINTS_H
