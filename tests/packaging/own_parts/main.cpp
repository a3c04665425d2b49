// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/named/own_parts.hpp>

#include <cstdio>

#if defined(EXPECTED)
static_assert(unmask::own_parts::size == EXPECTED);
#endif

int main() {
  std::printf("%d parts\n", static_cast<int>(unmask::own_parts::size));
}
