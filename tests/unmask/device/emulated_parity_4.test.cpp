// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parity suite of the layered policies.

#include "unmask/device/emulated_launches.hpp"
#include "unmask/device/layer_parity.hpp"

namespace unmask::testing {

INSTANTIATE_TYPED_TEST_SUITE_P(EveryPartOfLayers,
                               LayerParity,
                               types_of<every_part_of_layers>::type);

}  // namespace unmask::testing
