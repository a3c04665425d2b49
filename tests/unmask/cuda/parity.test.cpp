// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parity suite on a device. This file has no kernel: the workspaces are instantiated in
// sessions_*.cu. Skips itself where there is no device; the same suite then still runs with
// emulated kernels, see unmask/device.

#include "unmask/device/parity.hpp"

#include <unmask/cuda.hpp>

#include "unmask/device/key_parity.hpp"
#include "unmask/device/layer_parity.hpp"

namespace unmask::testing {

INSTANTIATE_TYPED_TEST_SUITE_P(EveryPart1, Parity, types_of<every_part_1>::type);
INSTANTIATE_TYPED_TEST_SUITE_P(EveryPart2, Parity, types_of<every_part_2>::type);
INSTANTIATE_TYPED_TEST_SUITE_P(EveryPart3, Parity, types_of<every_part_3>::type);
INSTANTIATE_TYPED_TEST_SUITE_P(EveryPart4, Parity, types_of<every_part_4>::type);
INSTANTIATE_TYPED_TEST_SUITE_P(EveryPartOfLayers,
                               LayerParity,
                               types_of<every_part_of_layers>::type);
INSTANTIATE_TYPED_TEST_SUITE_P(EveryElement, KeyParity, every_element);

}  // namespace unmask::testing
