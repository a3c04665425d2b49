// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/device_block.cuh>
#include <unmask/cuda/shards.hpp>

namespace UNMASK_NAMESPACE::device {

/// Reads a rank's columns of the rows of a batch: grid (window, runs, segments), at least one of
/// each; read_threads to a block. Registers and blocks without a row as for read_rows.
template <class T, class Exponential, class Policy>
__global__ void __launch_bounds__(read_threads, blocks_of_read<Policy::required>)
    read_shards(const __grid_constant__ session_device_view<Policy> device_view,
                const __grid_constant__ shard_device_view<Policy> shard,
                const __grid_constant__ row_batch batch) {
  static_assert(sizeof(device_view) + sizeof(shard) + sizeof(batch) <= 4000,
                "a kernel has 4 KB of arguments");
  using space = shard_space<T, Policy>;
  constexpr std::size_t bytes = sizeof(space);  // see decide_slots
  __shared__ alignas(alignof(space)) unsigned char shared[bytes];
  read_shard<T, Exponential>(device_block<read_threads>{},
                             device_view,
                             shard,
                             batch,
                             static_cast<index_t>(blockIdx.z),
                             static_cast<index_t>(blockIdx.x),
                             static_cast<index_t>(blockIdx.y),
                             *reinterpret_cast<space*>(shared));
}

/// Merges the messages of all ranks: grid (lines).
template <class Policy>
__global__ void __launch_bounds__(decide_threads, 1)
    merge_shards(const __grid_constant__ session_device_view<Policy> device_view,
                 const __grid_constant__ shard_device_view<Policy> shard,
                 const std::byte* messages,
                 index_t count,
                 range read) {
  __shared__ std::uint32_t wrong;
  merge_line(device_block<decide_threads>{},
             device_view,
             shard,
             messages,
             count,
             read,
             static_cast<index_t>(gridDim.x),
             static_cast<index_t>(blockIdx.x),
             wrong);
}

}  // namespace unmask::device
