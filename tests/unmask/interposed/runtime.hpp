// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// A CUDA runtime that is linked in the place of NVIDIA's: the entry points that the library and
/// the code nvcc generates for a launch use, counted. Memory is the host's, a kernel is a function
/// that is lent for it, and everything is executed at once.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <map>
#include <string>

namespace unmask::testing {

/// A launch as the runtime is given it.
struct launch {
  dim3 grid;
  dim3 block;
  void** arguments = nullptr;
  std::size_t shared = 0;
};

struct interposed_runtime {
  /// Calls so far, by name.
  std::map<std::string, int> calls;
  /// Kernel implementations by their host addresses from nvcc.
  std::map<const void*, std::function<void(const launch&)>> kernels;
};

[[nodiscard]] interposed_runtime& runtime();

}  // namespace unmask::testing
