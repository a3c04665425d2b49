// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// The instruction sets that this machine can test.

#include <unmask/host/simd.hpp>

#include <vector>

namespace unmask::testing {

[[nodiscard]] inline std::vector<host::instruction_set> instruction_sets() {
  std::vector<host::instruction_set> active;
  for (const host::instruction_set level : {host::instruction_set::portable,
                                            host::instruction_set::avx2,
                                            host::instruction_set::avx512,
                                            host::instruction_set::neon}) {
    if (host::available(level)) {
      active.push_back(level);
    }
  }
  return active;
}

}  // namespace unmask::testing
