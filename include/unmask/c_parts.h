// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef UNMASK_C_PARTS_H
#define UNMASK_C_PARTS_H

#include <unmask/c_api.h>

/// \file
/// Parts of policies for which a function of the host decides: a rule in any language that C can
/// call. A session calls it in unmask_supply(), on the same thread, once for each step of a
/// sequence, with all of its candidates. Such a part is slow next to one in C++, and sessions on a
/// device refuse it.

#ifdef __cplusplus
extern "C" {
#endif

/// Stages of such a part, and the answers of its function.
enum unmask_stages {
  UNMASK_RULE = 0,     ///< which candidates commit: 1 or 0 for each
  UNMASK_RANKING = 1,  ///< their order: a score for each, the higher commits earlier, NaN last
  UNMASK_FILTER = 2,   ///< one of unmask_filter_results for each
  UNMASK_STOP = 3      ///< one answer: UNMASK_RUNNING, or the end UNMASK_EOS_TOKEN,
                       ///< UNMASK_STOP_TOKENS or UNMASK_MAX_STEPS; also asked at the start
};
/// Answers of a filter about a candidate.
enum unmask_filter_results {
  UNMASK_KEEP = 0,         ///< nothing
  UNMASK_RANKED_LAST = 1,  ///< ranks it last, with confidence and margin 0 and infinite entropy
  UNMASK_REJECTED = 2,     ///< commits it only if a forced block has no other candidate
  UNMASK_EXCLUDE = 3       ///< takes it out of the step
};

/// A candidate: a masked position with the proposed token.
typedef struct unmask_step_candidate {
  int32_t position;               ///< its position
  int32_t token;                  ///< the proposed token
  float confidence;               ///< softmax probability of that token
  float log_probability;          ///< its logarithm
  float margin;                   ///< confidence minus the second largest probability
  float entropy;                  ///< entropy of the row, in nats
  float score;                    ///< for a rule the score of the ranking; otherwise NaN
  int32_t rank;                   ///< for a rule 0 for the best-ranked; otherwise -1
  int32_t block;                  ///< index of its block, from the first position after the prompt
  int32_t block_step;             ///< passes of that block before this one
  int32_t block_masked;           ///< masked positions of that block
  int32_t block_masked_at_first;  ///< the same when it was first decided
  int32_t block_length;           ///< positions of that block
} unmask_step_candidate;

/// A step of a sequence, before its commits. Valid during the call.
typedef struct unmask_step {
  const unmask_step_candidate* candidates;  ///< for a rule those that it decides about, the
                                            ///< best-ranked first; for a ranking or a filter all,
                                            ///< in ascending positions; for a stop none
  const int32_t* tokens;                    ///< the tokens of the sequence, `length` of them
  const uint8_t* marks;                     ///< per position 0 fixed, 1 masked, 2 committed
  const float* arguments;                   ///< the part's arguments, `argument_count` of them
  uint64_t seed;                            ///< unmask_sequence::seed
  uint32_t sequence;                        ///< unmask_sequence::sequence
  int32_t candidate_count;                  ///< number of `candidates`
  int32_t argument_count;                   ///< number of `arguments`
  int32_t slot;                             ///< slot of the sequence
  int32_t step;                             ///< passes of the sequence before this one
  int32_t prompt_length;                    ///< positions that are given
  int32_t length;                           ///< number of positions, prompt included
  int32_t masked_count;                     ///< masked positions
  int32_t committed_prefix;                 ///< every position before this one is committed
  int32_t eos_token;                        ///< of the model, or UNMASK_NO_TOKEN
  int32_t mask_token;                       ///< of the model
} unmask_step;

/// The function: writes an answer for each candidate, one for a stop, and returns 0. Another value
/// is an error: the sequence is cancelled, the others of the request are decided, and
/// unmask_supply() returns UNMASK_FAILED with a message that names the part and the slot. So it is
/// with an answer that breaks its rule. It must not use the session that calls it.
typedef int32_t (*unmask_function)(void* context, const unmask_step* step, float* answers);

/// An argument of a part: a number.
typedef struct unmask_part_argument {
  const char* name;  ///< its name in texts; read in the call
  double value;      ///< its default
  double least;      ///< the least value that it may have, and
  double most;       ///< the largest; both 0: it may have any
  int32_t whole;     ///< not 0: a whole number
} unmask_part_argument;

/// A function with the name of its part.
typedef struct unmask_part {
  uint32_t struct_size;     ///< sizeof of the structure, as the caller knows it
  int32_t stage;            ///< one of unmask_stages
  uint32_t step_size;       ///< sizeof(unmask_step), as the caller knows it
  uint32_t candidate_size;  ///< sizeof(unmask_step_candidate), as the caller knows it
  const char* name;         ///< the part's name in texts; read in the call
  const char* about;        ///< the part in one line, for the help, or null; read in the call
  const unmask_part_argument* arguments;  ///< its arguments; read in the call
  int32_t argument_count;                 ///< number of `arguments`, at most 4
  uint32_t argument_size;                 ///< sizeof(unmask_part_argument), as the caller knows it
  unmask_function function;               ///< the function, which must stay valid
  void* context;                          ///< its first argument, which must stay valid
} unmask_part;
/// Initialises unmask_part with its defaults.
#define UNMASK_PART_INIT                                                                           \
  {(uint32_t)sizeof(unmask_part),                                                                  \
   UNMASK_RULE,                                                                                    \
   (uint32_t)sizeof(unmask_step),                                                                  \
   (uint32_t)sizeof(unmask_step_candidate),                                                        \
   NULL,                                                                                           \
   NULL,                                                                                           \
   NULL,                                                                                           \
   0,                                                                                              \
   (uint32_t)sizeof(unmask_part_argument),                                                         \
   NULL,                                                                                           \
   NULL}

/// Gives a function a name: texts of policies and unmask_describe_parts() know it as a part from
/// then on, in all sessions of the process, with expressions, constraints, lookahead and traces.
/// Another call with the name replaces the function for texts that are read later; policies that
/// were read keep theirs. Errors: UNMASK_INVALID_ARGUMENT for a name that no text can spell or that
/// the library has. Thread-safe; allocates.
UNMASK_API unmask_status unmask_register_part(const unmask_part* part);

#ifdef __cplusplus
}
#endif

#endif  // UNMASK_C_PARTS_H
