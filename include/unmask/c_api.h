// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef UNMASK_C_API_H
#define UNMASK_C_API_H

#include <stddef.h>
#include <stdint.h>

/// \file
/// The library behind a C interface, for hosts in other languages: C99, usable through dlopen. What
/// implements it is examples/c_api, compiled once.
///
/// Calls return a status; unmask_last_error() then says, for the calling thread, which argument,
/// which value and which rule, and nothing was changed. No exception leaves a call. A session
/// belongs to one thread at a time; sessions of different threads do not meet. After
/// unmask_create() no call allocates but one that fails.
///
/// On a device (unmask_options::memory_space, in a library built with one) tokens and logits are device
/// memory; all other pointers are the host's. unmask_start() and unmask_supply() only enqueue to the
/// stream; what is asked of a session waits for it. Logits stay as they are until the stream is
/// through with them, which is so when unmask_next() returns.
///
/// Structures begin with their size, which the caller sets. Initialise them with the macro of their
/// name: UNMASK_OPTIONS_INIT and so on. Structures only grow: what an older caller's lacks gets the
/// defaults, a newer caller's is taken if what the library does not know of it is zero. Less than
/// version 1 has, or more than 128 bytes, is no size, and is refused unread. An answer is written as
/// far as both know it.

#ifdef __cplusplus
extern "C" {
#endif

#ifndef UNMASK_API
#  if defined(__GNUC__)
#    define UNMASK_API __attribute__((visibility("default")))
#  else
#    define UNMASK_API
#  endif
#endif

/// Grows with every change of this header; the same in unmask_abi_version() means the same calls.
#define UNMASK_ABI_VERSION 2

/// No token: for a model without an end token.
#define UNMASK_NO_TOKEN 0x7fffffff

enum unmask_status_codes {
  UNMASK_OK = 0,
  UNMASK_INVALID_ARGUMENT = 1,
  UNMASK_OUT_OF_ORDER = 2,  ///< a call that another one has to come before
  UNMASK_OUT_OF_MEMORY = 3,
  UNMASK_UNSUPPORTED = 4,  ///< the library was built without it, or is older than the caller
  UNMASK_FAILED = 5
};
typedef int32_t unmask_status;

enum unmask_element_kinds { UNMASK_F32 = 0, UNMASK_BF16 = 1, UNMASK_F16 = 2 };
enum unmask_features {
  UNMASK_HIDDEN = 0,  ///< a layer's output
  UNMASK_INPUT = 1,   ///< its normalised input
  UNMASK_QUERY = 2,
  UNMASK_KEY = 3,
  UNMASK_VALUE = 4
};
enum unmask_memory_spaces { UNMASK_HOST = 0, UNMASK_DEVICE = 1 };
enum unmask_endings {
  UNMASK_RUNNING = 0,
  UNMASK_COMPLETE = 1,
  UNMASK_END_TOKEN = 2,
  UNMASK_STOP_TOKENS = 3,
  UNMASK_STEP_BUDGET = 4,
  UNMASK_CANCELLED = 5
};

/// A session: slots that decode with one policy. Opaque.
typedef struct unmask_session unmask_session;

/// What a session is made with: the model, and capacities for all it will decode.
typedef struct unmask_options {
  uint32_t struct_size;
  int32_t memory_space;  ///< of logits and tokens
  void* stream;          ///< cudaStream_t, outlives the session, null is CUDA's default; null on the host
  int32_t threads;       ///< that read rows, the calling one included, at most 1,024; on the host
  int32_t vocab;         ///< valid columns of a row of logits; padding behind them is not read
  int32_t mask_token;    ///< stands at an open position, is never proposed
  int32_t end_token;     ///< another one, or UNMASK_NO_TOKEN
  int32_t row_shift;     ///< row p - shift predicts position p: 0 LLaDA, 1 Dream
  int32_t sequences;     ///< slots
  int32_t length;        ///< most positions of a sequence, prompt included
  int32_t window;        ///< most rows read in a step: the block, or up to the whole length
  int32_t trace;         ///< not 0: each step also reports what it did not commit
  int32_t layers;        ///< of the model, for a policy that is asked at layers
} unmask_options;
#define UNMASK_OPTIONS_INIT                                                                        \
  {                                                                                                \
    (uint32_t)sizeof(unmask_options), UNMASK_HOST, NULL, 1, 0, UNMASK_NO_TOKEN, UNMASK_NO_TOKEN, 0, \
        1, 0, 0, 0, 0                                                                              \
  }

/// One sequence.
typedef struct unmask_sequence {
  uint32_t struct_size;
  int32_t prompt;        ///< positions that are given and never change
  int32_t length;        ///< positions, prompt included
  int32_t block_length;  ///< positions denoised together; INT32_MAX: all in one block
  uint64_t seed;         ///< of what the policy draws
  uint32_t sequence;     ///< tells sequences of one seed apart
  uint32_t suppressed_count;
  const int32_t* suppressed;  ///< tokens never proposed, beside the mask token; read in the call
  const uint8_t* editable;    ///< a byte a position, 1 = open; null: the whole answer
} unmask_sequence;
#define UNMASK_SEQUENCE_INIT                                                                       \
  { (uint32_t)sizeof(unmask_sequence), 0, 0, 32, 0, 0, 0, NULL, NULL }

/// Positions that a forward pass runs for one slot, and the rows of logits it gives back.
typedef struct unmask_segment {
  int32_t slot;
  int32_t branch;           ///< 0: the sequence; else with placed_token at placed_position
  int32_t placed_position;  ///< of a lookahead branch, in this pass only
  int32_t placed_token;
  int32_t feed_first, feed_last;      ///< run [first, last)
  int32_t attend_first, attend_last;  ///< with keys of [first, last)
  int32_t row_first, row_last;        ///< give back the logits of these rows
  int32_t first_row;                  ///< where they start in the tensor
  int32_t evict;                      ///< 0 all keys, 1 all, choosing those to come, 2 the chosen
} unmask_segment;

/// What to compute next. The segments are the session's, until unmask_supply().
typedef struct unmask_request {
  uint32_t struct_size;
  int32_t count;  ///< of segments; 0: all sequences have ended
  int32_t rows;   ///< of all segments
  const unmask_segment* segments;
} unmask_request;
#define UNMASK_REQUEST_INIT                                                                        \
  { (uint32_t)sizeof(unmask_request), 0, 0, NULL }

/// Rows of logits as they lie in memory.
typedef struct unmask_logits {
  uint32_t struct_size;
  int32_t kind;          ///< UNMASK_F32, UNMASK_BF16, UNMASK_F16
  int32_t memory_space;  ///< that of the session
  int32_t rows;
  int32_t columns;   ///< at least unmask_options::vocab
  int64_t stride;    ///< from row to row, in elements, at least `columns`; 0: columns
  const void* data;  ///< aligned to an element, as every pointer here
} unmask_logits;
#define UNMASK_LOGITS_INIT                                                                         \
  { (uint32_t)sizeof(unmask_logits), UNMASK_F32, UNMASK_HOST, 0, 0, 0, NULL }

/// A token that a step wrote, or with `admitted` = 0 one that it did not.
typedef struct unmask_commit {
  int32_t slot, position, token;
  float log_probability;  ///< ln, of the row that the decision rested on
  int32_t step, block, block_step;
  int32_t admitted;
} unmask_commit;

/// How probable a token was that the policy asks about: probability_of.
typedef struct unmask_probability {
  int32_t slot, position, token, step;
  float probability;
  float share;  ///< among the asked tokens
} unmask_probability;

/// What became of a sequence.
typedef struct unmask_report {
  uint32_t struct_size;
  int32_t end;        ///< UNMASK_RUNNING and so on
  int32_t forwards;   ///< forward passes supplied
  int32_t committed;  ///< tokens by decisions
  int32_t settled;    ///< every position before this one is settled
  int32_t open, rewritten, forced, invalid_rows;
} unmask_report;
#define UNMASK_REPORT_INIT                                                                         \
  { (uint32_t)sizeof(unmask_report), 0, 0, 0, 0, 0, 0, 0, 0 }

/// The plan of a sequence for an engine with a cache, beside what its segments say.
typedef struct unmask_plan {
  uint32_t struct_size;
  int32_t winner;  ///< the branch that won the last step: keep its K/V; 0, the sequence itself
  int32_t freeze_first, freeze_last;  ///< K/V of [first, last) are final from now on
  int32_t refresh;  ///< not 0: the next pass computes all that it feeds, in every layer
} unmask_plan;
#define UNMASK_PLAN_INIT                                                                           \
  { (uint32_t)sizeof(unmask_plan), 0, 0, 0, 1 }

/// The hooks of a policy inside the layers of a pass.
typedef struct unmask_layer_rule {
  uint32_t struct_size;
  int32_t asks;  ///< not 0: unmask_at_layer() is called where unmask_hooks() says so
  int32_t reads; ///< the tensor that it is about: UNMASK_HIDDEN is asked for behind the layer, about
                 ///< the layers that follow; another one inside it, before attention, about this one
  int32_t stays; ///< not 0: a position that is not chosen goes on with the attention and
                 ///< feed-forward outputs that the engine stored for it; 0: it leaves the pass
} unmask_layer_rule;
#define UNMASK_LAYER_RULE_INIT                                                                     \
  { (uint32_t)sizeof(unmask_layer_rule), 0, UNMASK_HIDDEN, 0 }

/// Rows that an engine keeps from pass to pass for a layer, one for each position of [first, last),
/// and lends for a call that writes them.
typedef struct unmask_stored {
  uint32_t struct_size;
  int32_t kind;          ///< that of the rows at the layer
  int32_t memory_space;  ///< that of the session
  int32_t first, last;
  int32_t columns;
  int64_t stride;  ///< from row to row, in elements; 0: columns
  void* data;
} unmask_stored;
#define UNMASK_STORED_INIT                                                                         \
  { (uint32_t)sizeof(unmask_stored), UNMASK_F32, UNMASK_HOST, 0, 0, 0, 0, NULL }

/// UNMASK_ABI_VERSION of the library; the version of what it was built from, "0.1.0".
UNMASK_API uint32_t unmask_abi_version(void);
UNMASK_API const char* unmask_version(void);
/// What was wrong with the last call of this thread that failed; "" before the first.
UNMASK_API const char* unmask_last_error(void);
/// The parts that a policy can be composed of, with their arguments, as text.
UNMASK_API const char* unmask_describe_parts(void);
/// Says of a policy what unmask_create() says, for a session on the host whose options are right. A
/// library may serve fewer policies on a device.
UNMASK_API unmask_status unmask_check_policy(const char* policy);

/// Makes a session that decodes with a policy such as "credit + threshold(0.9)" or "es_dllm": parts
/// and methods are those of unmask_describe_parts(). The file that a policy names,
/// "profile_threshold('profile.json')", is read in the call. Allocates all it will need. `session` receives it, null on failure.
UNMASK_API unmask_status unmask_create(const char* policy,
                                       const unmask_options* options,
                                       unmask_session** session);
/// Frees a session; null is fine.
UNMASK_API void unmask_destroy(unmask_session* session);

/// Begins a sequence in `slot`. `tokens` stay the caller's, in the session's memory space, until
/// the sequence ends: the session writes the mask token to what is open, then commits in place.
UNMASK_API unmask_status unmask_start(unmask_session* session,
                                      int32_t slot,
                                      int32_t* tokens,
                                      int32_t count,
                                      const unmask_sequence* sequence);
/// What to compute next; count 0 when no sequence runs. The same until unmask_supply().
UNMASK_API unmask_status unmask_next(unmask_session* session, unmask_request* request);
/// Takes the logits of the request, packed: row first_row + r is row row_first + r of a segment.
UNMASK_API unmask_status unmask_supply(unmask_session* session, const unmask_logits* logits);
UNMASK_API unmask_status unmask_get_report(unmask_session* session,
                                           int32_t slot,
                                           unmask_report* report);
/// The plan of a slot's next step: after unmask_supply(), and after unmask_start().
UNMASK_API unmask_status unmask_get_plan(unmask_session* session, int32_t slot, unmask_plan* plan);
/// Ends a sequence as it is. Not between unmask_next() and unmask_supply().
UNMASK_API unmask_status unmask_cancel(unmask_session* session, int32_t slot);

/// What the last step did in a slot: tokens that it wrote; with trace, every position that it
/// decided about; answers to what the policy asks. The session's, until the next such call or
/// unmask_supply().
UNMASK_API unmask_status unmask_committed(unmask_session* session,
                                          int32_t slot,
                                          const unmask_commit** entries,
                                          int32_t* count);
UNMASK_API unmask_status unmask_candidates(unmask_session* session,
                                           int32_t slot,
                                           const unmask_commit** entries,
                                           int32_t* count);
UNMASK_API unmask_status unmask_probabilities(unmask_session* session,
                                              int32_t slot,
                                              const unmask_probability** entries,
                                              int32_t* count);

/// For engines that run single positions of their layers, which decode every policy: one with a
/// layer rule or delayed_cache asks, between unmask_next() and unmask_supply(), which positions are
/// computed. Sessions on the host; `segment` is an index in the request, and what is lent is the
/// session's, until the next call about its slot.
///
/// A pass begins with the positions of the segment; each layer attends to [attend_first,
/// attend_last). Where unmask_hooks() says so, layers ascending, unmask_at_layer() takes the rows of
/// the tensor that unmask_get_layer_rule() names, one for each of unmask_positions(), and what is
/// stored of them; it gives the indices of those rows that are computed from there on. Behind the
/// last layer unmask_rows() says whose logits are wanted, as indices of unmask_positions(); those of
/// all segments, packed one behind the other, are what unmask_supply() takes.
UNMASK_API unmask_status unmask_get_layer_rule(unmask_session* session, unmask_layer_rule* rule);
/// The positions that the next layer gets, ascending.
UNMASK_API unmask_status unmask_positions(unmask_session* session,
                                          int32_t segment,
                                          const int32_t** positions,
                                          int32_t* count);
UNMASK_API unmask_status unmask_hooks(unmask_session* session,
                                      int32_t segment,
                                      int32_t layer,
                                      int32_t* hooked);
UNMASK_API unmask_status unmask_at_layer(unmask_session* session,
                                         int32_t segment,
                                         int32_t layer,
                                         const unmask_logits* now,
                                         const unmask_stored* stored,
                                         const int32_t** rows,
                                         int32_t* count);
UNMASK_API unmask_status unmask_rows(unmask_session* session,
                                     int32_t segment,
                                     const int32_t** rows,
                                     int32_t* count);

/// One decision about one block, for hosts that keep the loop: `count` tokens and as many rows of
/// logits, of which row p - row_shift predicts position p. Open are the positions that `editable`
/// marks or, if that is null, those that hold the mask token. `transfer` receives a 1 where a token
/// is written, and the tokens get it; an open position that is not written holds the mask token.
/// On a device it waits for the stream.
///
/// Uses `slot` of a session in which nothing runs. A decision on its own: the policy has no memory
/// of the step before. Refused are policies that look beyond one step: credit, lookahead,
/// comparisons with the step before, counts of steps (scheduled, timesteps, slow_fast), a canvas,
/// and parts that rewrite settled tokens.
UNMASK_API unmask_status unmask_decide(unmask_session* session,
                                       int32_t slot,
                                       int32_t* tokens,
                                       int32_t count,
                                       const uint8_t* editable,
                                       uint64_t seed,
                                       const unmask_logits* logits,
                                       uint8_t* transfer);

#ifdef __cplusplus
}
#endif

#endif  // UNMASK_C_API_H
