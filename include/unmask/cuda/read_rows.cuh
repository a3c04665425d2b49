// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/device_block.cuh>
#include <unmask/cuda/read_rows.hpp>

namespace UNMASK_NAMESPACE::device {

/// Reads the rows of a batch: grid (window, runs, segments), read_threads to a block.
///
/// Blocks without a row to read end at once: the grid follows from capacities alone and the plans
/// are read here, so a captured launch stays right while the sequences move on.
template <class T, class Exponential, class Policy>
__global__ void __launch_bounds__(read_threads, read_blocks_per_multiprocessor)
    read_rows(const session_site<Policy> site, const __grid_constant__ row_batch batch) {
  using node = record<Policy::required>;
  // Bytes, because a shared variable may not have constructors.
  __shared__ alignas(alignof(node)) unsigned char nodes[sizeof(node) * max_run_chunks];
  read_position<T, Exponential>(device_block{},
                                site,
                                batch,
                                static_cast<index_t>(blockIdx.z),
                                static_cast<index_t>(blockIdx.x),
                                static_cast<index_t>(blockIdx.y),
                                reinterpret_cast<node*>(nodes));
}

}  // namespace unmask::device
