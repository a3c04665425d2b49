// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/device_block.cuh>
#include <unmask/cuda/read_rows.hpp>

namespace UNMASK_NAMESPACE::device {

/// Reads the rows of a batch: grid (window, runs, segments), read_threads to a block.
///
/// Reads that need each column once have a piece of a chunk in registers. The others have a chunk,
/// and reads that compare rows or truncate them have another one. Blocks without a row to read end
/// at once: the grid depends on capacities only and the plans are read here, so a captured launch
/// stays valid as the sequences proceed.
template <class T, class Exponential, unsigned Statistics, bool Transforms, class Policy>
__global__ void __launch_bounds__(read_threads, blocks_of_read<statistics{Statistics}>)
    read_rows(const session_device_view<Policy> device_view,
              const __grid_constant__ row_batch batch) {
  using space = read_space<T, statistics{Statistics}, Transforms, Policy>;
  constexpr std::size_t bytes = sizeof(space);  // see decide_slots
  __shared__ alignas(alignof(space)) unsigned char shared[bytes];
  read_position<Exponential>(device_block<read_threads>{},
                             device_view,
                             batch,
                             static_cast<index_t>(blockIdx.z),
                             static_cast<index_t>(blockIdx.x),
                             static_cast<index_t>(blockIdx.y),
                             *reinterpret_cast<space*>(shared));
}

}  // namespace unmask::device
