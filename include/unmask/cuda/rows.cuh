// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/device_block.cuh>
#include <unmask/cuda/rows.hpp>
#include <unmask/cuda/tuning.hpp>

namespace UNMASK_NAMESPACE::device {

/// row_copies: grid (most rows).
template <class T>
__global__ void __launch_bounds__(layer_threads)
    copy_rows(const __grid_constant__ row_copies<T> copies) {
  copy_row(device_block<layer_threads>{}, copies, static_cast<index_t>(blockIdx.x));
}

template <element T>
cudaError_t launch_copies(const row_copies<T>& copies, cudaStream_t stream) noexcept {
  if (copies.rows.most > 0) {
    copy_rows<<<static_cast<unsigned>(copies.rows.most),
                static_cast<unsigned>(layer_threads),
                0,
                stream>>>(copies);
  }
  return cudaGetLastError();
}

}  // namespace unmask::device
