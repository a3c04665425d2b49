/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "bindings/c/layers.h"

/* An engine in C that computes single positions of its layers, for every policy with a cache, a
   layer rule or eviction of keys. */

#define TRY(call)                                                                                  \
  do {                                                                                             \
    const unmask_status status_of_call = (call);                                                   \
    if (status_of_call != UNMASK_OK) {                                                             \
      return status_of_call;                                                                       \
    }                                                                                              \
  } while (0)

/* A list that the session owns. */
typedef struct list {
  const int32_t* entries;
  int32_t count;
} list;

/* The rows that the policy selects at a layer. */
static unmask_status choose(engine* e,
                            unmask_session* session,
                            int32_t layer,
                            const float* now_rows,
                            int32_t length,
                            list* rows) {
  list positions;
  TRY(unmask_positions(session, 0, &positions.entries, &positions.count));
  unmask_logits now = UNMASK_LOGITS_INIT;
  now.rows = positions.count;
  now.columns = engine_width(e);
  now.data = now_rows;
  unmask_stored stored = UNMASK_STORED_INIT;
  stored.last = length;
  stored.columns = now.columns;
  stored.data = engine_stored(e, layer);
  return unmask_at_layer(session, 0, layer, &now, &stored, &rows->entries, &rows->count);
}

/* Selects the keys that a layer keeps, by their scores for the mean query of the blocks. */
static unmask_status select_keys(engine* e,
                                 unmask_session* session,
                                 int32_t layer,
                                 const unmask_eviction* eviction,
                                 int32_t keys_last,
                                 float* scores) {
  unmask_logits keys = UNMASK_LOGITS_INIT;
  keys.rows = keys_last;
  keys.columns = engine_width(e);
  keys.data = engine_keys(e, layer);
  const float* query = engine_mean_query(e, eviction->first, eviction->last);
  list kept;
  TRY(unmask_score_keys(&keys, query, scores));
  TRY(unmask_select_keys(session, 0, scores, keys_last, &kept.entries, &kept.count));
  engine_keep_keys(e, layer, kept.entries, kept.count);
  return UNMASK_OK;
}

/* One pass of the only segment of a request. */
static unmask_status forward(engine* e,
                             unmask_session* session,
                             const unmask_layer_rule* rule,
                             const int32_t* tokens,
                             int32_t length,
                             int32_t keys_last,
                             float* scores,
                             list* rows) {
  /* [layers] */
  list positions;
  unmask_eviction eviction = UNMASK_EVICTION_INIT;
  TRY(unmask_positions(session, 0, &positions.entries, &positions.count));
  TRY(unmask_get_eviction(session, 0, &eviction));
  engine_begin(e, tokens, positions.entries, positions.count, keys_last);
  if (eviction.evict == UNMASK_EVICT_CHOSEN) {
    engine_attend_to_kept(e, eviction.first, eviction.last);
  }
  for (int32_t layer = 0; layer < engine_layers(e); ++layer) {
    int32_t hooked;
    TRY(unmask_hooks(session, 0, layer, &hooked));
    const int follows = hooked && rule->reads == UNMASK_HIDDEN;
    const int in_front = hooked && !follows;
    if (in_front) {
      TRY(choose(e, session, layer, engine_input(e, layer, rule->reads), length, rows));
    }
    if (in_front && rule->kept) {
      engine_run_some(e, layer, rows->entries, rows->count); /* the others keep its outputs */
    } else {
      if (in_front) {
        engine_keep(e, rows->entries, rows->count); /* the others leave the pass */
      }
      engine_run(e, layer);
    }
    if (eviction.evict == UNMASK_EVICT_CHOOSE) {
      TRY(select_keys(e, session, layer, &eviction, keys_last, scores));
    }
    if (follows) {
      TRY(choose(e, session, layer, engine_hidden(e), length, rows));
      engine_keep(e, rows->entries, rows->count);
    }
  }
  TRY(unmask_rows(session, 0, &rows->entries, &rows->count));
  engine_keep(e, rows->entries, rows->count);
  /* [/layers] */
  return UNMASK_OK;
}

static unmask_status decode(engine* e,
                            unmask_session* session,
                            int32_t* tokens,
                            const unmask_sequence* sequence,
                            int32_t* forwards) {
  static float scores[4096];
  const int32_t length = sequence->length;
  if (length > (int32_t)(sizeof scores / sizeof *scores)) {
    return UNMASK_UNSUPPORTED;
  }
  unmask_layer_rule rule = UNMASK_LAYER_RULE_INIT;
  TRY(unmask_get_layer_rule(session, &rule));
  TRY(unmask_start(session, 0, tokens, length, sequence));
  engine_reset(e, length);
  unmask_request request = UNMASK_REQUEST_INIT;
  for (*forwards = 0;; ++*forwards) {
    TRY(unmask_next(session, &request));
    if (request.count == 0) {
      return UNMASK_OK;
    }
    if (request.count > 1) {
      return UNMASK_UNSUPPORTED;
    }
    list rows;
    const int32_t keys_last = request.segments[0].keys_last;
    TRY(forward(e, session, &rule, tokens, length, keys_last, scores, &rows));
    unmask_logits logits = UNMASK_LOGITS_INIT;
    logits.rows = rows.count;
    logits.columns = engine_vocabulary(e);
    logits.data = engine_logits(e);
    TRY(unmask_supply(session, &logits));
  }
}

unmask_status decode_in_layers(engine* e,
                               const char* policy,
                               int32_t* tokens,
                               int32_t prompt_length,
                               int32_t length,
                               int32_t block_length,
                               int32_t* forwards) {
  unmask_options options = UNMASK_OPTIONS_INIT;
  options.vocab = engine_vocabulary(e);
  options.mask_token = engine_mask_token(e);
  options.eos_token = engine_eos_token(e);
  options.length = length;
  options.window = length;
  options.layers = engine_layers(e);
  unmask_sequence sequence = UNMASK_SEQUENCE_INIT;
  sequence.prompt_length = prompt_length;
  sequence.length = length;
  sequence.block_length = block_length;
  unmask_session* session;
  TRY(unmask_create(policy, &options, &session));
  const unmask_status status = decode(e, session, tokens, &sequence, forwards);
  unmask_destroy(session);
  return status;
}
