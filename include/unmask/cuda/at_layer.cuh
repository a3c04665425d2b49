// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/at_layer.hpp>
#include <unmask/cuda/device_block.cuh>

namespace UNMASK_NAMESPACE::device {

/// Selects the rows of a layer: grid (any, segments of the batch), layer_threads to a block.
template <class T, class Policy>
__global__ void __launch_bounds__(layer_threads, layer_blocks_per_multiprocessor)
    choose_at_layer(const session_device_view<Policy> device_view,
                    const __grid_constant__ layer_batch<T> batch) {
  using space = choice_space<Policy>;
  constexpr std::size_t bytes = sizeof(space);  // see decide_slots
  __shared__ alignas(alignof(space)) unsigned char shared[bytes];
  layer_block(device_block<layer_threads>{},
              device_view,
              batch.segments[blockIdx.y],
              static_cast<index_t>(blockIdx.x),
              static_cast<index_t>(gridDim.x),
              *reinterpret_cast<space*>(shared));
}

/// Stores the selected rows: grid (most rows, segments of the batch).
template <class T, class Policy>
__global__ void __launch_bounds__(layer_threads, layer_blocks_per_multiprocessor)
    store_at_layer(const session_device_view<Policy> device_view,
                   const __grid_constant__ layer_batch<T> batch) {
  store_chosen(device_block<layer_threads>{},
               device_view,
               batch.segments[blockIdx.y],
               static_cast<index_t>(blockIdx.x));
}

}  // namespace unmask::device
