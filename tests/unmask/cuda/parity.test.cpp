// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parity suite on a device. This file has no kernel: the workspaces are instantiated in
// sessions_by_name.cu and sessions_composed.cu. Skips itself where there is no device; the same
// suite then still runs with emulated kernels, see unmask/device.

#include "unmask/device/parity.hpp"

#include <unmask/cuda.hpp>

#include "unmask/device/key_parity.hpp"

namespace unmask::testing {

INSTANTIATE_TYPED_TEST_SUITE_P(EveryElement, KeyParity, every_element);

}  // namespace unmask::testing
