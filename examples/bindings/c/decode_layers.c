/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <stdio.h>
#include <stdlib.h>

#include "bindings/c/layers.h"

/* Decodes an answer with a policy, in C:
   unmask_example_c_layers tiny-f16.gguf "es_dllm" "Q:..." 40 20 */

int main(int argc, char** argv) {
  if (argc != 6) {
    fprintf(stderr, "usage: %s MODEL POLICY PROMPT ANSWER_LENGTH BLOCK_LENGTH\n", argv[0]);
    return 2;
  }
  engine* const e = engine_open(argv[1]);
  if (e == NULL) {
    return 1;
  }
  int32_t tokens[1024];
  const int32_t answer = atoi(argv[4]);
  const int32_t length = engine_tokens(e, argv[3], answer, tokens, 1024);
  if (length < 0 || answer < 1) {
    fprintf(stderr, "the model cannot read that prompt, or has no room for that answer\n");
    return 1;
  }
  int32_t forwards = 0;
  if (decode_in_layers(e, argv[2], tokens, length - answer, length, atoi(argv[5]), &forwards) !=
      UNMASK_OK) {
    fprintf(stderr, "%s\n", unmask_last_error());
    return 1;
  }
  char text[4096];
  engine_text(e, tokens + length - answer, answer, text, (int32_t)sizeof text);
  const double whole = (double)forwards * length * engine_layers(e);
  printf("%s\n%d passes, %.0f %% of their layers computed\n",
         text,
         (int)forwards,
         100.0 * (double)engine_computed(e) / whole);
  engine_close(e);
  return 0;
}
