// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/device_block.cuh>
#include <unmask/cuda/read_rows.hpp>

namespace UNMASK_NAMESPACE::device {

/// True if a read of these statistics, as bits, compares rows or holds columns.
template <unsigned Statistics>
[[nodiscard]] constexpr bool is_wide() {
  constexpr statistics s{Statistics};
  return s.contains(stat::drift) || s.contains(stat::divergence) || s.contains(stat::kept);
}

/// Reads the rows of a batch and, if the batch says so, decides its slots: grid (window, runs,
/// segments), read_threads to a block. Dynamic shared memory: scratch_bytes() if it decides.
///
/// Reads that compare rows have a chunk of each step in registers, and those that truncate rows the
/// held columns, so they get the registers of two blocks. Blocks without a row to read end at once:
/// the grid depends on capacities only and the plans are read here, so a captured launch stays
/// valid as the sequences proceed.
template <class T, class Exponential, unsigned Statistics, class Policy>
__global__ void __launch_bounds__(read_threads,
                                  is_wide<Statistics>() ? 2 : read_blocks_per_multiprocessor)
    read_rows(const session_device_view<Policy> device_view,
              const __grid_constant__ row_batch batch) {
  using space = read_space<T, statistics{Statistics}, Policy>;
  extern __shared__ __align__(64) unsigned char scratch[];
  // Bytes, because a shared variable cannot have a constructor.
  __shared__ alignas(alignof(space)) unsigned char shared[sizeof(space)];
  step_position<Exponential>(device_block<read_threads>{},
                             device_view,
                             batch,
                             static_cast<index_t>(blockIdx.z),
                             static_cast<index_t>(blockIdx.x),
                             static_cast<index_t>(blockIdx.y),
                             *reinterpret_cast<space*>(shared),
                             reinterpret_cast<std::byte*>(scratch));
}

}  // namespace unmask::device
