// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Callers that were compiled against the header and against a newer one, and one library: what they
// find in its arrays is the same, and members that the library does not know are 0.
#include <stdint.h>
#include <stdio.h>

const char* call_this(uint64_t* digest, int32_t* grown);
const char* call_newer(uint64_t* digest, int32_t* grown);

int main(void) {
  const char* (*const callers[])(uint64_t*, int32_t*) = {call_this, call_newer};
  uint64_t digests[2] = {0, 0};
  int32_t grown = 0;
  for (int i = 0; i < 2; ++i) {
    const char* const error = callers[i](&digests[i], &grown);
    if (error != NULL) {
      printf("%s\n", error);
      return 1;
    }
  }
  printf("%d %d\n", digests[0] == digests[1], grown);
  return digests[0] == 0;
}
