// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parity suite with emulated kernels.

#include "unmask/device/emulated_launches.hpp"
#include "unmask/device/parity.hpp"
