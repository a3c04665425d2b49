// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The one target of a libFuzzer program.

#include <cstdio>
#include <cstdlib>

#include "fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    unmask::fuzz::targets().front().run({data, size});
  } catch (const unmask::fuzz::violation& v) {
    std::fprintf(stderr, "%s\n", v.what.c_str());
    std::abort();
  }
  return 0;
}
