// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cstdio>

int decode_with_this_version();
int decode_with_the_next_version();

int main() {
  std::printf("%d %d\n", decode_with_this_version(), decode_with_the_next_version());
}
