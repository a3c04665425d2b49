/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef UNMASK_EXAMPLE_ENGINE_H
#define UNMASK_EXAMPLE_ENGINE_H

#include <stdint.h>

/* The example engine behind C: a transformer whose layers compute single positions of one
   sequence. A pass has rows of hidden states, one for each position that is still in it. */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct engine engine;

/* Loads a model; null, with a message on the standard error, for a file that is not one. */
engine* engine_open(const char* file);
void engine_close(engine* e);
int32_t engine_layers(const engine* e);
int32_t engine_width(const engine* e); /* numbers of a row */
int32_t engine_vocabulary(const engine* e);
int32_t engine_mask_token(const engine* e);
int32_t engine_eos_token(const engine* e);
/* Writes the tokens of a prompt and of `answer` masked positions, at most `room`, and returns their
   number; -1 for a prompt that the model cannot read or that has no room. */
int32_t
engine_tokens(const engine* e, const char* prompt, int32_t answer, int32_t* tokens, int32_t room);
/* Writes the text of tokens up to the first EOS token, at most `room` bytes with the final 0. */
void engine_text(const engine* e, const int32_t* tokens, int32_t count, char* text, int32_t room);

/* Begins a sequence of `length` tokens: forgets keys, values and stored rows. */
void engine_reset(engine* e, int32_t length);
/* Begins a pass of these positions, which attend to [0, keys). */
void engine_begin(
    engine* e, const int32_t* tokens, const int32_t* positions, int32_t count, int32_t keys);
/* They attend to [first, last) and to the keys given to engine_keep_keys() only. */
void engine_attend_to_kept(engine* e, int32_t first, int32_t last);
/* The hidden states of the rows. */
const float* engine_hidden(const engine* e);
/* The tensor of a layer, as in unmask_features, of the rows in front of it. */
const float* engine_input(engine* e, int32_t layer, int32_t feature);
/* Drops all rows but those with these indices. */
void engine_keep(engine* e, const int32_t* rows, int32_t count);
/* Takes all rows through a layer; keys and values of their positions are replaced. */
void engine_run(engine* e, int32_t layer);
/* The same for the rows with these indices; the others get what the layer added to them last. */
void engine_run_some(engine* e, int32_t layer, const int32_t* rows, int32_t count);
/* Rows that the policy compares with, one for each position of the sequence. */
float* engine_stored(engine* e, int32_t layer);
/* The keys of [0, keys) of a layer that has run, and the mean query of the positions [first, last)
   of the pass. Either is valid until the next call. */
const float* engine_keys(engine* e, int32_t layer);
const float* engine_mean_query(engine* e, int32_t first, int32_t last);
/* The keys that a layer keeps for later passes. */
void engine_keep_keys(engine* e, int32_t layer, const int32_t* positions, int32_t count);
/* The logits of the rows. */
const float* engine_logits(engine* e);
/* Positions computed so far, summed over the layers. */
int64_t engine_computed(const engine* e);

#ifdef __cplusplus
}
#endif

#endif
