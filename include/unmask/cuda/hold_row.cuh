// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/device_block.cuh>
#include <unmask/cuda/hold_row.hpp>

namespace UNMASK_NAMESPACE::device {

/// Holds the columns of rows for soft tokens: grid (window, segments).
template <class T, class Policy>
__global__ void __launch_bounds__(hold_threads)
    hold_rows(const session_device_view<Policy> device_view,
              const __grid_constant__ row_batch batch) {
  using space = hold_space<T, Policy>;
  constexpr std::size_t bytes = sizeof(space);  // see decide_slots
  __shared__ alignas(alignof(space)) unsigned char shared[bytes];
  hold_row<T>(device_block<hold_threads>{},
              device_view,
              batch,
              static_cast<index_t>(blockIdx.y),
              static_cast<index_t>(blockIdx.x),
              *reinterpret_cast<space*>(shared));
}

}  // namespace unmask::device
