/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * Decodes an answer that obeys a JSON Schema or an expression, from its text. The tokens are
 * characters and the logits noise, so that only the language makes sense of them.
 *
 * usage: language [regex EXPRESSION | schema SCHEMA]
 */
#include <unmask/c_language.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { characters = 95, mask = 95, eos = 96, vocab = 97, length = 40 };

static void check(unmask_status status) {
  if (status != UNMASK_OK) {
    fprintf(stderr, "%s\n", unmask_last_error());
    exit(1);
  }
}

int main(int argc, char** argv) {
  const int is_schema = argc < 2 || strcmp(argv[1], "schema") == 0;
  const char* const text =
      argc > 2 ? argv[2]
               : "{\"type\": \"object\", \"properties\": {\"age\": {\"type\": \"integer\", "
                 "\"minimum\": 18, \"maximum\": 99}}, \"required\": [\"age\"]}";
  static char letters[characters];
  unmask_token_bytes tokens[vocab] = {{NULL, 0}}; /* none for mask and EOS */
  for (int32_t v = 0; v < characters; ++v) {
    letters[v] = (char)(' ' + v);
    tokens[v].data = &letters[v];
    tokens[v].size = 1;
  }
  /* [language] */
  unmask_options options = UNMASK_OPTIONS_INIT;
  options.vocab = vocab;
  options.mask_token = mask;
  options.eos_token = eos;
  options.length = length;
  options.window = length;
  unmask_vocabulary* words = NULL; /* once a model */
  check(unmask_vocabulary_new(tokens, vocab, &options, NULL, 0, &words));

  unmask_language_options limits = UNMASK_LANGUAGE_OPTIONS_INIT;
  limits.milliseconds = 1000; /* texts come from clients */
  unmask_language* language = NULL;
  const int32_t kind = is_schema ? UNMASK_JSON_SCHEMA : UNMASK_EXPRESSION;
  check(unmask_language_new(kind, text, strlen(text), &limits, &language));
  unmask_constraint* constraint = NULL;
  check(unmask_language_constraint(language, words, NULL, &constraint));
  unmask_language_free(language);

  unmask_constrained_field whole_answer = {constraint, 0, INT32_MAX, 0, 0, 0, 0};
  unmask_sequence sequence = UNMASK_SEQUENCE_INIT;
  sequence.length = length;
  sequence.block_length = length;
  sequence.constraints = &whole_answer;
  sequence.constraint_count = 1;
  /* [/language] */
  unmask_session* session = NULL;
  check(unmask_create("tokens_per_step(4)", &options, &session));
  int32_t answer[length] = {0};
  check(unmask_start(session, 0, answer, length, &sequence));
  static float rows[length * vocab];
  uint32_t noise = 1;
  unmask_request request = UNMASK_REQUEST_INIT;
  for (check(unmask_next(session, &request)); request.count > 0;
       check(unmask_next(session, &request))) {
    for (int32_t i = 0; i < request.rows * vocab; ++i) {
      noise = noise * 1664525u + 1013904223u;
      rows[i] = (float)(noise >> 8) / (float)(1 << 22);
    }
    unmask_logits logits = UNMASK_LOGITS_INIT;
    logits.rows = request.rows;
    logits.columns = vocab;
    logits.data = rows;
    check(unmask_supply(session, &logits));
  }
  for (int32_t p = 0; p < length && answer[p] != eos; ++p) {
    putchar(letters[answer[p]]);
  }
  putchar('\n');
  unmask_destroy(session);
  unmask_constraint_free(constraint);
  unmask_vocabulary_free(words);
  return 0;
}
