// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/unmask.hpp>

// A name that the linker must keep apart from those of the other translation unit.
int version_seen_elsewhere() {
  return UNMASK_VERSION;
}
