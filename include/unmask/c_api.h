// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef UNMASK_C_API_H
#define UNMASK_C_API_H

#include <stddef.h>
#include <stdint.h>

/// \file
/// The C interface of the library, for hosts in other languages: C99, usable through dlopen.
/// Compiled once, from c_library.hpp. <unmask/c_layers.h> has the calls for engines that compute
/// single positions of their layers.
///
/// Errors: calls return a status. After an error unmask_last_error() names, for the calling thread,
/// the argument, its value and the rule, and nothing was changed. No exception leaves a call. One
/// thread at a time may use a session; sessions are independent. After unmask_create() memory is
/// allocated only by calls that fail, and by unmask_start() for a sequence that needs more than its
/// slot has: another policy, soft tokens, constraints.
///
/// On a device (unmask_options::memory_space, in a library built with one) tokens and logits are
/// device memory; all other pointers are host memory. unmask_start() and unmask_supply() only
/// enqueue to the stream; calls that return results synchronise with it. Keep the logits unchanged
/// until the stream has read them, which is so when unmask_next() returns.
///
/// Structures begin with their size, which the caller sets: initialise them with the macro of their
/// name, UNMASK_OPTIONS_INIT and so on. Structures only grow. Members missing in an older caller's
/// structure get their defaults; a newer caller's structure is accepted if the members unknown to
/// the library are zero. A size below that of version 1, or above 128 bytes, is refused and nothing
/// else is read. Of an output structure the members known to both are written. Structures that the
/// library returns in arrays also grow: the caller gives the size that it knows, which is their
/// distance, and gets the members known to both.

#ifdef __cplusplus
extern "C" {
#endif

/// Marks what the library exports.
#ifndef UNMASK_API
#  if defined(__GNUC__)
#    define UNMASK_API __attribute__((visibility("default")))
#  else
#    define UNMASK_API
#  endif
#endif

/// Incremented with every release that changes the C headers; two released libraries with equal
/// unmask_abi_version() have the same calls.
#define UNMASK_ABI_VERSION 1

/// No token: for a model without an EOS token.
#define UNMASK_NO_TOKEN 0x7fffffff

/// Result of a call.
enum unmask_status_codes {
  UNMASK_OK = 0,                ///< done
  UNMASK_INVALID_ARGUMENT = 1,  ///< an argument breaks a rule
  UNMASK_OUT_OF_ORDER = 2,      ///< another call has to be made before this one
  UNMASK_OUT_OF_MEMORY = 3,     ///< no memory for it
  UNMASK_UNSUPPORTED = 4,  ///< not built into the library, or the library is older than the caller
  UNMASK_FAILED = 5        ///< anything else, such as an error of the device
};
/// One of unmask_status_codes.
typedef int32_t unmask_status;

/// Types of a number.
enum unmask_element_kinds {
  UNMASK_F32 = 0,   ///< float
  UNMASK_BF16 = 1,  ///< bfloat16
  UNMASK_F16 = 2    ///< IEEE half precision
};
/// Kinds of memory.
enum unmask_memory_spaces {
  UNMASK_HOST = 0,   ///< memory of the host
  UNMASK_DEVICE = 1  ///< memory of the device
};
/// Why a sequence has ended, or that it has not.
enum unmask_endings {
  UNMASK_RUNNING = 0,      ///< it has not
  UNMASK_COMPLETE = 1,     ///< no position is masked
  UNMASK_EOS_TOKEN = 2,    ///< an EOS token is committed, and everything left of it
  UNMASK_STOP_TOKENS = 3,  ///< a stop sequence is committed, and everything left of it
  UNMASK_MAX_STEPS = 4,    ///< the maximum number of forward passes is reached
  UNMASK_CANCELLED = 5,    ///< unmask_cancel() was called
  UNMASK_IDLE = 6          ///< no sequence was started in the slot yet
};

/// Outcome of a candidate in a step.
enum unmask_outcomes {
  UNMASK_COMMITTED = 0,    ///< committed by the commit rule
  UNMASK_FORCED = 1,       ///< committed by the progress guarantee
  UNMASK_HELD = 2,         ///< still masked: rejected by the commit rule or by a part's filter
  UNMASK_EXCLUDED = 3,     ///< still masked: a part excluded it from this step
  UNMASK_INVALID = 4,      ///< still masked: its row is invalid
  UNMASK_REPLACED = 5,     ///< a committed token became the proposed one
  UNMASK_REMASKED = 6,     ///< a committed position is masked again
  UNMASK_KEPT = 7,         ///< a committed position was a candidate again, and keeps its token
  UNMASK_FROM_BRANCH = 8,  ///< committed with the winning lookahead branch
  UNMASK_REFUSED = 9,      ///< unchanged: its constraint does not allow the token
  UNMASK_FILLED = 10       ///< committed without a decision: the only token its constraint leaves
};

/// Values of unmask_segment::attention: positions that a position attends to, among those of
/// `keys`.
enum unmask_attentions {
  UNMASK_BIDIRECTIONAL = 0,  ///< all
  UNMASK_CAUSAL = 1,         ///< those that are not to the right of it
  UNMASK_SHADOW = 2  ///< the keys of the segment `shadow_of`, except the key at its own position,
                     ///< and all of this segment, which are masks
};

/// Bits of unmask_options::flags.
enum unmask_flags {
  UNMASK_NO_FILES = 1,          ///< no text of a policy may name a file: for texts from others
  UNMASK_CAUSAL_ATTENTION = 2,  ///< the engine runs segments with UNMASK_CAUSAL
  UNMASK_SHADOW_ATTENTION = 4   ///< the engine runs segments with UNMASK_SHADOW
};

/// A session: slots that decode with one policy. Opaque.
typedef struct unmask_session unmask_session;

/// Options of a session: the model, and capacities for all sequences.
typedef struct unmask_options {
  uint32_t struct_size;  ///< sizeof of the structure, as the caller knows it
  int32_t memory_space;  ///< memory space of logits and tokens
  void* stream;          ///< cudaStream_t, outlives the session; null: CUDA's default, or host
  int32_t threads;       ///< threads that read rows, with the calling one, at most 1,024; host only
  int32_t vocab;         ///< valid columns of a row of logits; padding after them is not read
  int32_t mask_token;    ///< the token at masked positions, never proposed
  int32_t eos_token;     ///< different from the mask token, or UNMASK_NO_TOKEN
  int32_t logits_shift;  ///< row p - shift predicts position p: 0 LLaDA, 1 Dream
  int32_t sequences;     ///< number of slots
  int32_t length;        ///< largest number of positions of a sequence, prompt included
  int32_t window;        ///< most rows read in a step: the block length, up to the whole length
  int32_t trace;         ///< not 0: each step also reports the candidates it did not commit
  int32_t layers;        ///< layers of the model, for a policy with a layer rule
  int32_t propose_mask;  ///< not 0: the mask token may be proposed, as in released decoders; its
                         ///< position then stays masked, and a decode may need max_steps to end
  int32_t branches;      ///< branches that there is memory for, at least; up to 16
  int32_t shared_threads;  ///< not 0: sessions with the same number share their threads,
                           ///< whose steps take turns
  uint32_t flags;  ///< bits of unmask_flags, for the policies of the session and of its sequences
} unmask_options;
/// Initialises unmask_options with its defaults.
#define UNMASK_OPTIONS_INIT                                                                        \
  {(uint32_t)sizeof(unmask_options),                                                               \
   UNMASK_HOST,                                                                                    \
   NULL,                                                                                           \
   1,                                                                                              \
   0,                                                                                              \
   UNMASK_NO_TOKEN,                                                                                \
   UNMASK_NO_TOKEN,                                                                                \
   0,                                                                                              \
   1,                                                                                              \
   0,                                                                                              \
   0,                                                                                              \
   0,                                                                                              \
   0,                                                                                              \
   0,                                                                                              \
   0,                                                                                              \
   0,                                                                                              \
   0}

/// A regular language that answers obey: <unmask/c_constraints.h>. Opaque.
typedef struct unmask_constraint unmask_constraint;

/// Positions of an answer whose tokens are to form a string of a language: as constrained_field.
/// All members 0 but `language` and `last`: the whole answer.
typedef struct unmask_constrained_field {
  const unmask_constraint* language;  ///< may be destroyed once the sequence is started
  int32_t first, last;   ///< positions, counted from the end of the prompt; INT32_MAX: to its end
  int32_t tokens_after;  ///< tokens that follow in later sequences; -1: any number
  uint32_t state;        ///< 1 + unmask_constraint_state() of the block before; 0: the first state
  int32_t no_fill;       ///< not 0: tokens that are certain wait for a forward pass
  int32_t read_again;  ///< not 0: refused candidates are read again, and committed in the same step
} unmask_constrained_field;

/// Geometry and seed of one sequence.
typedef struct unmask_sequence {
  uint32_t struct_size;       ///< sizeof of the structure, as the caller knows it
  int32_t prompt_length;      ///< length of the prompt, which never changes
  int32_t length;             ///< number of positions, prompt included
  int32_t block_length;       ///< positions decoded together; INT32_MAX: all in one block
  uint64_t seed;              ///< seed of the random numbers
  uint32_t sequence;          ///< distinguishes sequences of one seed
  uint32_t suppressed_count;  ///< number of `suppressed`
  const int32_t*
      suppressed;  ///< tokens never proposed, in addition to the mask token; read in the call
  const uint8_t* editable;  ///< per position 0 fixed, 1 masked, 2 committed; null: all masked
  const char* policy;       ///< another policy, read in the call; null: the session's
  const unmask_constrained_field* constraints;  ///< fields, from left to right; read in the call
  uint32_t constraint_count;                    ///< number of `constraints`
  int32_t soft_tokens;  ///< tokens of a row in unmask_soft_tokens(); 0: none
} unmask_sequence;
/// Initialises unmask_sequence with its defaults.
#define UNMASK_SEQUENCE_INIT                                                                       \
  {(uint32_t)sizeof(unmask_sequence), 0, 0, 32, 0, 0, 0, NULL, NULL, NULL, NULL, 0, 0}

/// A token that a branch has at a position, in one forward pass only.
typedef struct unmask_placement {
  int32_t position;  ///< position of the sequence
  int32_t token;     ///< the token placed there
} unmask_placement;

/// Positions that a forward pass computes for one slot, and the rows of logits to return.
typedef struct unmask_segment {
  int32_t slot;                     ///< slot of the sequence
  int32_t branch;                   ///< 0: the sequence; else with the tokens `placed` in place
  int32_t query_first, query_last;  ///< compute positions [first, last)
  int32_t keys_first, keys_last;    ///< with the keys of [first, last)
  int32_t row_first, row_last;      ///< return these rows of the model's output as they are: with
                                    ///< logits_shift 1 they already begin one position earlier
  int32_t first_row;                ///< index of the first of them in the tensor
  int32_t evict;                    ///< one of unmask_evictions, in <unmask/c_layers.h>
  int32_t logits_shift;             ///< row p - shift of this segment predicts position p
  int32_t placed_count;             ///< number of `placed`: 0 for the sequence, else 1 or more
  const unmask_placement* placed;   ///< tokens of a branch, in this pass only; null: none
  int32_t attention;                ///< one of unmask_attentions; 0 unless the flags have another
  int32_t shadow_of;                ///< index of the segment that a shadow attends to, or -1
} unmask_segment;

/// The next forward pass. The session owns the segments, which are valid until unmask_supply().
typedef struct unmask_request {
  uint32_t struct_size;            ///< sizeof of the structure, as the caller knows it
  int32_t count;                   ///< number of segments; 0: all sequences have ended
  int32_t rows;                    ///< rows of all segments
  uint32_t segment_size;           ///< sizeof(unmask_segment), as the caller knows it
  const unmask_segment* segments;  ///< `count` of them
} unmask_request;
/// Initialises unmask_request with its defaults.
#define UNMASK_REQUEST_INIT                                                                        \
  {(uint32_t)sizeof(unmask_request), 0, 0, (uint32_t)sizeof(unmask_segment), NULL}

/// Rows of logits in memory: logits or log-probabilities, never probabilities, which decode one
/// forced token a pass (unmask_report::forced).
typedef struct unmask_logits {
  uint32_t struct_size;  ///< sizeof of the structure, as the caller knows it
  int32_t kind;          ///< UNMASK_F32, UNMASK_BF16, UNMASK_F16
  int32_t memory_space;  ///< memory space of the session
  int32_t rows;          ///< number of rows
  int32_t columns;       ///< at least unmask_options::vocab
  int64_t stride;        ///< distance of rows, in elements, at least `columns`; 0: columns
  const void* data;      ///< aligned to an element, as every pointer here
} unmask_logits;
/// Initialises unmask_logits with its defaults.
#define UNMASK_LOGITS_INIT {(uint32_t)sizeof(unmask_logits), UNMASK_F32, UNMASK_HOST, 0, 0, 0, NULL}

/// Per-row inputs of logits, applied while the rows are read; memory of the session's space. A
/// stride of 0 gives every row the same.
typedef struct unmask_modifiers {
  uint32_t struct_size;          ///< sizeof of the structure, as the caller knows it
  float cfg_scale;               ///< guidance s: u + (s + 1)(c - u) is read for c; 0 is off
  const uint32_t* allowed;       ///< ceil(vocab / 32) words a row, bit v % 32 of word v / 32 set
                                 ///< where token v is allowed; null: all are
  int64_t allowed_stride;        ///< distance of rows of words, in words
  const void* unconditional;     ///< unconditional rows u, of the kind of the logits; null: none
  int64_t unconditional_stride;  ///< distance of these rows, in elements
} unmask_modifiers;
/// Initialises unmask_modifiers with its defaults.
#define UNMASK_MODIFIERS_INIT {(uint32_t)sizeof(unmask_modifiers), 0.0F, NULL, 0, NULL, 0}

/// A token that a step wrote or, with `committed` = 0, a proposed token that it did not write.
typedef struct unmask_commit {
  int32_t slot, position, token;    ///< its place, and which token it is
  float log_probability;            ///< natural logarithm, from the row of the decision
  int32_t step, block, block_step;  ///< when: as commit_entry
  int32_t committed;                ///< 0: the step did not write it
  int32_t rank;                     ///< place in the order of the candidates, from 0; -1: none
} unmask_commit;

/// A candidate of a step, the token proposed for it, and why it was committed or not.
typedef struct unmask_candidate {
  int32_t slot, position, token;    ///< its place, and which token it is
  float log_probability;            ///< as unmask_commit
  int32_t step, block, block_step;  ///< when: as commit_entry
  int32_t committed;                ///< 0: the step did not write it
  int32_t outcome;                  ///< one of unmask_outcomes
  int32_t part;      ///< the part that decided, counted as in the text from 0; -1: none
  float confidence;  ///< softmax probability of the token
  float margin;      ///< confidence minus the runner-up's; NaN: not known
  float entropy;     ///< entropy of the row, in nats; NaN: not known
  int32_t rank;      ///< place in the order of the candidates, from 0; -1: none
} unmask_candidate;

/// The probability of a token that the policy probes (probability_of), or of a soft token.
typedef struct unmask_probability {
  int32_t slot, position, token, step;  ///< where, which and when: as token_probability
  float probability;                    ///< softmax probability in the row
  float share;  ///< probability among the probed tokens, or the soft tokens of the position, alone
} unmask_probability;

/// Report of a sequence.
typedef struct unmask_report {
  uint32_t struct_size;      ///< sizeof of the structure, as the caller knows it
  int32_t end;               ///< one of unmask_endings; UNMASK_IDLE before the first start
  int32_t forwards;          ///< forward passes supplied
  int32_t committed;         ///< tokens committed by decisions
  int32_t committed_prefix;  ///< every position before this one is committed, or filled with the
                             ///< EOS token by the end of the sequence
  int32_t masked, rewritten, forced, invalid_rows;  ///< as sequence_report
  int32_t second_reads;                             ///< rows that were read twice
  int32_t answer_end;  ///< one past the answer. While it runs: the length. Of an ended sequence:
                       ///< after the EOS token or the stop sequence, and never after the first
                       ///< position that no decision committed, such as those that a max_steps
                       ///< fills with EOS tokens or that unmask_cancel() leaves masked. Show the
                       ///< tokens before the lower of this and committed_prefix
  int32_t refused, filled, constraint_met;  ///< as sequence_report; constraint_met is 0 or 1
} unmask_report;
/// Initialises unmask_report with its defaults.
#define UNMASK_REPORT_INIT {(uint32_t)sizeof(unmask_report), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/// Plan of a sequence for an engine with a cache, in addition to its segments.
typedef struct unmask_plan {
  uint32_t struct_size;  ///< sizeof of the structure, as the caller knows it
  int32_t winner;  ///< the branch that won the last step: keep its K/V; 0, the sequence itself
  int32_t freeze_first, freeze_last;  ///< K/V of [first, last) are final from now on
  int32_t refresh;  ///< not 0: the next pass computes all its positions in every layer
} unmask_plan;
/// Initialises unmask_plan with its defaults.
#define UNMASK_PLAN_INIT {(uint32_t)sizeof(unmask_plan), 0, 0, 0, 1}

/// UNMASK_ABI_VERSION of the library.
UNMASK_API uint32_t unmask_abi_version(void);
/// The version of the sources that the library was built from, "0.1.0".
UNMASK_API const char* unmask_version(void);
/// Message of the last failed call of this thread; "" before the first, and never empty after it.
/// Valid until the next call of this thread that fails, or the end of the thread.
UNMASK_API const char* unmask_last_error(void);
/// The parts that a policy can be composed of, with their arguments, as text.
UNMASK_API const char* unmask_describe_parts(void);

/// A released model: its word in texts, and the numbers that belong to it. Texts live as long as
/// the library.
typedef struct unmask_model {
  const char* word;       ///< "model:llada2_1"
  const char* models;     ///< the models, and the settings, in one line
  const char* policy;     ///< the policy that the word means
  const char* source;     ///< what was read, with its version
  const char* date;       ///< when
  int32_t block_length;   ///< positions of a block; 0: the whole answer is one
  int32_t answer_length;  ///< positions that are decoded by default
  int32_t
      whole_blocks;    ///< not 0: the sequence ends with a whole block, at a multiple of its length
  int32_t beyond;      ///< positions decoded right of the answer
  int32_t mask_token;  ///< UNMASK_NO_TOKEN: the model has none, or the tokenizer has it
  int32_t eos_tokens[3];  ///< then UNMASK_NO_TOKEN; only that if the tokenizer has them
  int32_t logits_shift;   ///< unmask_options::logits_shift
  int32_t propose_mask;   ///< unmask_options::propose_mask, to decode as the released code does
  float temperature;      ///< temperature of the draws of `policy`
} unmask_model;
/// The released models that have a word. `entry_size` is sizeof(unmask_model), as the caller knows
/// it; the library owns the entries.
UNMASK_API unmask_status unmask_list_models(size_t entry_size,
                                            const unmask_model** entries,
                                            int32_t* count);
/// The word for a model, by the `model_type` of its configuration or the architecture of its GGUF
/// file, and by the name of its checkpoint, which may be null; null if no model has that type.
UNMASK_API const char* unmask_model_of(const char* type, const char* checkpoint);
/// The released models with their policies, numbers and sources, as text.
UNMASK_API const char* unmask_describe_models(void);

/// Checks a policy's text: the status and error of unmask_create() for a session on the host whose
/// options are valid, with layers and with every kind of attention.
UNMASK_API unmask_status unmask_check_policy(const char* policy);
/// Like unmask_check_policy(), for a session with these unmask_options::flags: without
/// UNMASK_CAUSAL_ATTENTION a policy that needs it is refused.
UNMASK_API unmask_status unmask_check_policy_with(const char* policy, uint32_t flags);

/// Requirements of sequences of one shape under a policy.
typedef struct unmask_requirements {
  uint32_t struct_size;   ///< sizeof of the structure, as the caller knows it
  int32_t window;         ///< least unmask_options::window
  int64_t most_forwards;  ///< upper bound on the forward passes of a sequence
  uint64_t state_bytes;   ///< memory of a session's slots, with at least that window
} unmask_requirements;
/// Initialises unmask_requirements with its defaults.
#define UNMASK_REQUIREMENTS_INIT {(uint32_t)sizeof(unmask_requirements), 0, 0, 0}

/// Requirements of a policy, before a session is made; unmask_options::window may be 0. Not of a
/// replay. Errors: as for unmask_create() about the options, and for unmask_start() about the
/// shape.
UNMASK_API unmask_status unmask_get_requirements(const char* policy,
                                                 const unmask_options* options,
                                                 const unmask_sequence* sequence,
                                                 unmask_requirements* requirements);

/// Makes a session that decodes with a policy such as "trace_credit + threshold(0.9)" or "es_dllm":
/// see unmask_describe_parts() for parts and methods. A file that a policy names,
/// "calibrated_threshold('profile.json')", is read in the call, if it is a regular file of at most
/// 16 MB; with UNMASK_NO_FILES such a policy is refused. "replay('decode.jsonl', 2)" decodes
/// as the third sequence of a trace did (include/unmask/trace/README.md); on the host. Allocates
/// all memory of the session. `session` receives the session, null on failure.
UNMASK_API unmask_status unmask_create(const char* policy,
                                       const unmask_options* options,
                                       unmask_session** session);
/// Frees a session; null has no effect.
UNMASK_API void unmask_destroy(unmask_session* session);

/// Starts a sequence in `slot`; one that still runs there is replaced without an error, and its
/// tokens stay as they are. The caller owns `tokens`, in the session's memory space, and keeps
/// them until the sequence ends: the session writes the mask token to the masked positions, then
/// commits in place. Allocates for unmask_sequence::policy, if given.
UNMASK_API unmask_status unmask_start(unmask_session* session,
                                      int32_t slot,
                                      int32_t* tokens,
                                      int32_t count,
                                      const unmask_sequence* sequence);
/// Returns the next forward pass, with count 0 when no sequence runs. Returns the same until
/// unmask_supply().
UNMASK_API unmask_status unmask_next(unmask_session* session, unmask_request* request);
/// Like unmask_next(), for `count` slots only, for a limit on the tokens of a pass or paused
/// sequences. The pass contains the running sequences of these slots, and its count is 0 if there
/// are none. Other slots keep their state. Not while a request is pending.
UNMASK_API unmask_status unmask_next_slots(unmask_session* session,
                                           const int32_t* slots,
                                           int32_t count,
                                           unmask_request* request);
/// Takes the logits of the request, packed: row first_row + r is the row of position row_first + r
/// of a segment.
UNMASK_API unmask_status unmask_supply(unmask_session* session, const unmask_logits* logits);
/// Takes one tensor for each of the `count` segments, in the request's order, all of one kind, and
/// modifiers for each, or null for none. The structures of each array have the size of its first.
UNMASK_API unmask_status unmask_supply_segments(unmask_session* session,
                                                const unmask_logits* tensors,
                                                const unmask_modifiers* modifiers,
                                                int32_t count);
/// Report of the sequence in a slot; of a slot without one, UNMASK_IDLE and zeros.
UNMASK_API unmask_status unmask_get_report(unmask_session* session,
                                           int32_t slot,
                                           unmask_report* report);
/// Plan of a slot's next step: after unmask_supply() and after unmask_start().
UNMASK_API unmask_status unmask_get_plan(unmask_session* session, int32_t slot, unmask_plan* plan);
/// Ends a sequence in its current state: masked positions keep the mask token. Without effect on a
/// slot that is idle or has ended. Not between unmask_next() and unmask_supply().
UNMASK_API unmask_status unmask_cancel(unmask_session* session, int32_t slot);
/// Forgets the request of unmask_next(), for an engine whose forward pass failed or was preempted:
/// sequences may then be cancelled and started, and unmask_next() requests the same step again. Not
/// after unmask_at_layer().
UNMASK_API unmask_status unmask_abandon(unmask_session* session);
/// Cancels every sequence of the request of unmask_next() and forgets it, for an engine whose
/// forward pass failed after unmask_at_layer(). Their slots may then be started again.
UNMASK_API unmask_status unmask_cancel_request(unmask_session* session);

/// Tokens that the last step wrote in a slot. `entry_size` is sizeof(unmask_commit), as the caller
/// knows it. The session owns the entries; valid until the next such call or unmask_supply(). For
/// entries larger than the library's the call may allocate.
UNMASK_API unmask_status unmask_committed(unmask_session* session,
                                          int32_t slot,
                                          size_t entry_size,
                                          const unmask_commit** entries,
                                          int32_t* count);
/// Candidates of the last step: the positions that it decided, and committed ones that it changed.
/// Needs unmask_options::trace. Size and owner as above.
UNMASK_API unmask_status unmask_candidates(unmask_session* session,
                                           int32_t slot,
                                           size_t entry_size,
                                           const unmask_candidate** entries,
                                           int32_t* count);
/// Probabilities of the tokens that the policy probes, in the last step. Size and owner as
/// above.
UNMASK_API unmask_status unmask_probabilities(unmask_session* session,
                                              int32_t slot,
                                              size_t entry_size,
                                              const unmask_probability** entries,
                                              int32_t* count);

/// The most probable tokens of each position that the last step read and left masked,
/// unmask_sequence::soft_tokens of them, best first: for an engine that feeds such a position with
/// a mixture of embeddings. On the host. Size and owner as above.
UNMASK_API unmask_status unmask_soft_tokens(unmask_session* session,
                                            int32_t slot,
                                            size_t entry_size,
                                            const unmask_probability** entries,
                                            int32_t* count);
/// Like unmask_soft_tokens(), for the positions that the last step read and committed: for
/// interfaces that show alternatives of a token. One that was drawn need not be among them.
UNMASK_API unmask_status unmask_alternatives(unmask_session* session,
                                             int32_t slot,
                                             size_t entry_size,
                                             const unmask_probability** entries,
                                             int32_t* count);

/// A record of the confidences of one sequence, from which the profile of all later sequences is
/// made: OSDT.
typedef struct unmask_calibrator unmask_calibrator;
/// Makes a record for a policy with calibrated_threshold and without a file, such as "osdt_gsm8k",
/// which says what the profile is to be, and for blocks of `block_length` positions.
UNMASK_API unmask_status unmask_calibrator_new(const char* policy,
                                               int32_t block_length,
                                               unmask_calibrator** calibrator);
/// Frees a record, or nothing for null.
UNMASK_API void unmask_calibrator_free(unmask_calibrator* calibrator);
/// Records the last step of the slot that decodes the sequence. Call it once after each
/// unmask_supply(), the last one included. May allocate. A policy with recorded=candidates needs
/// unmask_options::trace.
UNMASK_API unmask_status unmask_calibrator_observe(unmask_calibrator* calibrator,
                                                   unmask_session* session,
                                                   int32_t slot);
/// Text of the profile of what has been recorded, for a file that calibrated_threshold names. The
/// record owns it; valid until the next such call. With nothing recorded it has no blocks,
/// and the policy stays the static threshold.
UNMASK_API unmask_status unmask_calibrator_profile(unmask_calibrator* calibrator,
                                                   const char** text);

/// Records the decodes of a session with unmask_options::trace from now on as a trace, lines of
/// JSON (include/unmask/trace/README.md), in a file; "-" is the standard output. `model` is the
/// name that it gives the model. Host sessions, before the first unmask_start(). unmask_start()
/// then allocates. A line that cannot be written ends the recording: unmask_supply(),
/// unmask_cancel(), unmask_cancel_request(), and unmask_start() of a sequence with nothing to
/// decode, which have had their effect, then fail once with UNMASK_FAILED.
UNMASK_API unmask_status unmask_record(unmask_session* session,
                                       const char* file,
                                       const char* model);

/// Decides one block once, for hosts that have their own loop: `count` tokens and `count` rows of
/// logits; row p - logits_shift predicts position p. Masked are the positions where `editable` is 1
/// or, if it is null, those that contain the mask token. `transfer` receives 1 where a token is
/// written, 0 elsewhere, and the tokens are updated; a masked position that is not written contains
/// the mask token. On a device it synchronises with the stream.
///
/// Uses `slot` of a session in which no sequence runs. The decision has no memory of previous
/// steps. Errors: policies that depend on more than one step are refused: credit, lookahead,
/// comparisons with the previous step, counts of steps (steps_per_block, timesteps, slow_fast), a
/// canvas, and parts that rewrite committed tokens.
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
