// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// The instruction sets that this machine can test.

#include <unmask/host/simd.hpp>

#include <vector>

namespace unmask::testing {

[[nodiscard]] inline std::vector<host::tier> tiers() {
  std::vector<host::tier> present;
  for (const host::tier level :
       {host::tier::portable, host::tier::avx2, host::tier::avx512, host::tier::neon}) {
    if (host::available(level)) {
      present.push_back(level);
    }
  }
  return present;
}

}  // namespace unmask::testing
