// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/device_block.cuh>
#include <unmask/cuda/key_selector.hpp>
#include <unmask/cuda/tuning.hpp>

namespace UNMASK_NAMESPACE::device {

/// key_products: any grid of one dimension that has a warp for each key, layer_threads to a block.
template <class T>
__global__ void __launch_bounds__(layer_threads, layer_blocks_per_multiprocessor)
    score_rows(const __grid_constant__ key_products<T> a) {
  score_block(device_block<layer_threads>{}, a, static_cast<index_t>(blockIdx.x));
}

/// selection_arguments: one block.
template <class T>
__global__ void __launch_bounds__(decide_threads)
    keep_highest_keys(const __grid_constant__ selection_arguments<T> a) {
  __shared__ digit_counts space;
  select_keys(device_block<decide_threads>{}, a, space);
}

template <element T>
cudaError_t launch_scores(const key_products<T>& a, cudaStream_t stream) noexcept {
  if (a.keys.rows > 0) {
    score_rows<<<static_cast<unsigned>((a.keys.rows + layer_rows - 1) / layer_rows),
                 static_cast<unsigned>(layer_threads),
                 0,
                 stream>>>(a);
  }
  return cudaGetLastError();
}

template <element T>
cudaError_t launch_selection(const selection_arguments<T>& a, cudaStream_t stream) noexcept {
  keep_highest_keys<<<1, static_cast<unsigned>(decide_threads), 0, stream>>>(a);
  return cudaGetLastError();
}

}  // namespace unmask::device
