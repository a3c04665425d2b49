// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/c_api.h>

#include <string.h>

// Decodes two sequences and adds what it finds in every array to `digest`. Returns the message of
// the first call that fails, or 0.
const char* UNMASK_TEST_CALLER(uint64_t* digest, int32_t* grown);

#define CALL(call)                                                                                 \
  if ((call) != UNMASK_OK) {                                                                       \
    return unmask_last_error();                                                                    \
  }
#ifdef UNMASK_TEST_GROWN
#  define GROWN(e) *grown |= (e).grown[0] | (e).grown[1] | (e).grown[2]
#else
#  define GROWN(e) (void)grown
#endif

static void add(uint64_t* digest, int64_t value) {
  *digest = (*digest ^ (uint64_t)value) * UINT64_C(0x100000001b3);
}
static void add_float(uint64_t* digest, float value) {
  uint32_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  add(digest, bits);
}

const char* UNMASK_TEST_CALLER(uint64_t* digest, int32_t* grown) {
  unmask_options options = UNMASK_OPTIONS_INIT;
  options.vocab = 4;
  options.mask_token = 3;
  options.sequences = 2;
  options.length = 6;
  options.window = 6;
  options.trace = 1;
  unmask_session* session = NULL;
  CALL(unmask_create("by_margin + tokens_per_step(2) + probability_of([0, 1])", &options, &session))
  int32_t tokens[2][6] = {{0, 3, 3, 3, 3, 3}, {1, 3, 3, 3, 3, 3}};
  unmask_sequence sequence = UNMASK_SEQUENCE_INIT;
  sequence.prompt_length = 1;
  sequence.length = 6;
  for (int32_t slot = 0; slot < 2; ++slot) {
    CALL(unmask_start(session, slot, tokens[slot], 6, &sequence))
  }
  float z[12][4];
  for (int i = 0; i < 48; ++i) {
    z[i / 4][i % 4] = (float)((i * 37) % 23) / 8;
  }
  unmask_request request = UNMASK_REQUEST_INIT;
  for (;;) {
    CALL(unmask_next(session, &request))
    if (request.count == 0) {
      break;
    }
    for (int32_t i = 0; i < request.count; ++i) {
      const unmask_segment s = request.segments[i];
      add(digest, s.slot);
      add(digest, s.row_first * 100 + s.row_last);
      add(digest, s.first_row);
      GROWN(s);
    }
    unmask_logits logits = UNMASK_LOGITS_INIT;
    logits.rows = request.rows;
    logits.columns = 4;
    logits.data = z;
    CALL(unmask_supply(session, &logits))
    for (int32_t slot = 0; slot < 2; ++slot) {
      const unmask_commit* commits = NULL;
      const unmask_candidate* candidates = NULL;
      const unmask_probability* probabilities = NULL;
      int32_t count = 0;
      CALL(unmask_committed(session, slot, sizeof(unmask_commit), &commits, &count))
      for (int32_t i = 0; i < count; ++i) {
        add(digest, commits[i].position * 10 + commits[i].token);
        GROWN(commits[i]);
      }
      CALL(unmask_candidates(session, slot, sizeof(unmask_candidate), &candidates, &count))
      for (int32_t i = 0; i < count; ++i) {
        add(digest, candidates[i].position * 10 + candidates[i].outcome);
        add_float(digest, candidates[i].entropy);
        GROWN(candidates[i]);
      }
      CALL(unmask_probabilities(session, slot, sizeof(unmask_probability), &probabilities, &count))
      for (int32_t i = 0; i < count; ++i) {
        add(digest, probabilities[i].position * 10 + probabilities[i].token);
        add_float(digest, probabilities[i].share);
        GROWN(probabilities[i]);
      }
    }
  }
  unmask_destroy(session);
  return NULL;
}
