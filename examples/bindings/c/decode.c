/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Decodes with the library behind a C interface, found when the program runs: what a host in
 * another language does. The "model" here wants to say hello; only its logits matter. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unmask/c_api.h"

enum { mask = '_', vocab = 128, prompt = 3 };
static const char answer[] = ">> hello, world";

/* A row of logits for each of the positions [first, last): surer the more neighbours are known. */
static void
forward(const int32_t* tokens, int32_t length, int32_t first, int32_t last, float* out) {
  for (int32_t p = first; p < last; ++p, out += vocab) {
    const int left = p > 0 && tokens[p - 1] != mask;
    const int right = p + 1 < length && tokens[p + 1] != mask;
    memset(out, 0, vocab * sizeof *out);
    out[(unsigned char)answer[p]] = 4.0F + 2.0F * (float)(left + right);
  }
}

/* The calls, by name. */
#define EACH_CALL(use)                                                                             \
  use(abi_version) use(last_error) use(create) use(destroy) use(start) use(next) use(supply)       \
      use(get_report)
static struct calls {
  uint32_t (*abi_version)(void);
  const char* (*last_error)(void);
  unmask_status (*create)(const char*, const unmask_options*, unmask_session**);
  void (*destroy)(unmask_session*);
  unmask_status (*start)(unmask_session*, int32_t, int32_t*, int32_t, const unmask_sequence*);
  unmask_status (*next)(unmask_session*, unmask_request*);
  unmask_status (*supply)(unmask_session*, const unmask_logits*);
  unmask_status (*get_report)(unmask_session*, int32_t, unmask_report*);
} unmask;

static void fail(const char* what) {
  fprintf(stderr, "decode: %s\n", what);
  exit(1);
}
static void check(unmask_status status) {
  if (status != UNMASK_OK) {
    fail(unmask.last_error());
  }
}

static void load(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fail(dlerror());
  }
  /* POSIX gives functions as data pointers; ISO C has no cast for that. */
#define LOAD(name)                                                                                 \
  {                                                                                                \
    void* const symbol = dlsym(library, "unmask_" #name);                                          \
    if (symbol == NULL) {                                                                          \
      fail("unmask_" #name " is missing");                                                         \
    }                                                                                              \
    memcpy(&unmask.name, &symbol, sizeof symbol);                                                  \
  }
  EACH_CALL(LOAD)
  if (unmask.abi_version() != UNMASK_ABI_VERSION) {
    fail("the library has another ABI version than this program");
  }
}

int main(int argc, char** argv) {
  if (argc < 2) {
    fail("usage: decode LIBRARY [POLICY]");
  }
  load(argv[1]);

  int32_t tokens[sizeof answer - 1];
  const int32_t length = (int32_t)(sizeof answer - 1);
  for (int32_t p = 0; p < length; ++p) {
    tokens[p] = p < prompt ? answer[p] : mask;
  }
  unmask_options options = UNMASK_OPTIONS_INIT;
  options.vocab = vocab;
  options.mask_token = mask;
  options.length = length;
  options.window = length;
  unmask_session* session = NULL;
  check(unmask.create(argc > 2 ? argv[2] : "by_margin + tokens_per_step(3)", &options, &session));
  unmask_sequence sequence = UNMASK_SEQUENCE_INIT;
  sequence.prompt_length = prompt;
  sequence.length = length;
  sequence.block_length = 6;
  check(unmask.start(session, 0, tokens, length, &sequence));

  static float rows[(sizeof answer - 1) * 17 * vocab]; /* 16 branches at most */
  unmask_request request = UNMASK_REQUEST_INIT;
  for (check(unmask.next(session, &request)); request.count > 0;
       check(unmask.next(session, &request))) {
    for (int32_t i = 0; i < request.count; ++i) {
      const unmask_segment* const s = &request.segments[i];
      for (int32_t k = 0; k < s->placed_count; ++k) {
        tokens[s->placed[k].position] = s->placed[k].token;
      }
      forward(tokens, length, s->row_first, s->row_last, rows + (size_t)s->first_row * vocab);
      for (int32_t k = 0; k < s->placed_count; ++k) {
        tokens[s->placed[k].position] = mask;
      }
    }
    unmask_logits logits = UNMASK_LOGITS_INIT;
    logits.rows = request.rows;
    logits.columns = vocab;
    logits.data = rows;
    check(unmask.supply(session, &logits)); /* decides, writes the tokens in place */
    for (int32_t p = 0; p < length; ++p) {
      putchar(tokens[p]);
    }
    putchar('\n');
  }
  unmask_report report = UNMASK_REPORT_INIT;
  check(unmask.get_report(session, 0, &report));
  printf("%d tokens in %d forward passes\n", (int)report.committed, (int)report.forwards);
  unmask.destroy(session);
  return 0;
}
