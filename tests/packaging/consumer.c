/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Links the library behind the C interface; the version that it must have is the argument. */
#include <unmask/c_api.h>
#include <unmask/c_layers.h>

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  int major = 0;
  int minor = 0;
  int patch = 0;
  unmask_session* session = NULL;
  unmask_options options = UNMASK_OPTIONS_INIT;
  options.vocab = 5;
  options.mask_token = 4;
  options.length = options.window = 3;
  if (unmask_abi_version() != UNMASK_ABI_VERSION ||
      unmask_create("threshold(0.9)", &options, &session) != UNMASK_OK) {
    fprintf(stderr, "%s\n", unmask_last_error());
    return 1;
  }
  unmask_destroy(session);
  return argc == 2 && sscanf(unmask_version(), "%d.%d.%d", &major, &minor, &patch) == 3 &&
                 major * 10000 + minor * 100 + patch == atoi(argv[1])
             ? 0
             : 1;
}
