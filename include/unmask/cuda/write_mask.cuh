// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/device_block.cuh>
#include <unmask/cuda/write_mask.hpp>

namespace UNMASK_NAMESPACE::device {

/// Writes the masks of slots with constraints: grid (window, mask_pieces, segments).
template <class Policy>
__global__ void __launch_bounds__(mask_threads)
    write_masks(const session_device_view<Policy> device_view,
                const __grid_constant__ row_batch batch) {
  write_mask(device_block<mask_threads>{},
             device_view,
             batch,
             static_cast<index_t>(blockIdx.z),
             static_cast<index_t>(blockIdx.x),
             static_cast<index_t>(blockIdx.y));
}

}  // namespace unmask::device
