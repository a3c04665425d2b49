// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A share of the parity suite: several files, so that they compile side by side.

#include "unmask/device/emulated_launches.hpp"
#include "unmask/device/parity.hpp"

namespace unmask::testing {

INSTANTIATE_TYPED_TEST_SUITE_P(EveryPart3, Parity, types_of<every_part_3>::type);
INSTANTIATE_TYPED_TEST_SUITE_P(MoreCompositions, Parity, types_of<more_compositions>::type);

}  // namespace unmask::testing
