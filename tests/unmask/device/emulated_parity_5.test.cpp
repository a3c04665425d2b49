// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A share of the parity suite: several files, so that they compile side by side.

#include "unmask/device/emulated_launches.hpp"
#include "unmask/device/parity.hpp"

namespace unmask::testing {

INSTANTIATE_TYPED_TEST_SUITE_P(EveryPart4, Parity, types_of<every_part_4>::type);

}  // namespace unmask::testing
