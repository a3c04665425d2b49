// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/unmask.hpp>

#include <cstdio>
#include <cstdlib>

// Prints the version; fails if it is not the one given.
int main(int count, char** arguments) {
  std::printf("unmask %d\n", UNMASK_VERSION);
  return count == 2 && std::atoi(arguments[1]) == UNMASK_VERSION ? 0 : 1;
}
