/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <unmask/c_api.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { vocab = 128, mask = '_', length = 39 };
static const char answer[] = "commit what is certain, then look again";

static void check(unmask_status status) {
  if (status != UNMASK_OK) {
    fprintf(stderr, "%s\n", unmask_last_error());
    exit(1);
  }
}

/* A toy model: the logits of positions [first, last). Sure of vowels, and next to known letters. */
static void forward(const int32_t* tokens, int32_t first, int32_t last, float* logits) {
  memset(logits, 0, sizeof *logits * (size_t)(last - first) * vocab);
  for (int32_t p = first; p < last; ++p, logits += vocab) {
    const int left = p > 0 && tokens[p - 1] != mask;
    const int right = p + 1 < length && tokens[p + 1] != mask;
    logits[(int)answer[p]] = strchr("aeiou", answer[p]) || left || right ? 9.0F : 3.0F;
  }
}

int main(void) {
  unmask_options options = UNMASK_OPTIONS_INIT; /* one slot, in host memory */
  options.vocab = vocab;
  options.mask_token = mask;
  options.length = length;
  options.window = length; /* the most rows of a step: the block length */
  unmask_session* session = NULL;
  check(unmask_create("threshold(0.9)", &options, &session));

  int32_t tokens[length]; /* yours: the session writes masks into it, then the answer */
  unmask_sequence sequence = UNMASK_SEQUENCE_INIT;
  sequence.length = length;
  sequence.block_length = length;
  check(unmask_start(session, 0, tokens, length, &sequence));

  static float rows[length * vocab];
  for (;;) {
    unmask_request request = UNMASK_REQUEST_INIT;
    check(unmask_next(session, &request));
    if (request.count == 0) {
      break; /* all sequences have ended */
    }
    for (int32_t i = 0; i < request.count; ++i) { /* a segment for each slot */
      const unmask_segment* const s = &request.segments[i];
      forward(tokens, s->row_first, s->row_last, rows + (size_t)s->first_row * vocab);
    }
    unmask_logits logits = UNMASK_LOGITS_INIT; /* float; bfloat16 and float16 as well */
    logits.data = rows;
    logits.rows = request.rows;
    logits.columns = vocab;
    check(unmask_supply(session, &logits)); /* decides, and writes tokens in place */
    for (int32_t p = 0; p < length; ++p) {
      putchar(tokens[p]);
    }
    putchar('\n');
  }

  unmask_report report = UNMASK_REPORT_INIT;
  check(unmask_get_report(session, 0, &report));
  printf("%d tokens in %d forward passes\n", (int)report.committed, (int)report.forwards);
  unmask_destroy(session);
  return 0;
}
