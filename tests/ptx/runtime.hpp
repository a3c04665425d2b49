// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// The CUDA runtime that is linked in the place of NVIDIA's, and runs kernels from their PTX.

#include "ptx/machine.hpp"

namespace unmask::ptx {

/// The one device.
[[nodiscard]] machine& device();

}  // namespace unmask::ptx
