// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/decide_slot.hpp>
#include <unmask/cuda/device_block.cuh>

namespace UNMASK_NAMESPACE::device {

/// Decides one step of every slot: grid (slots). Dynamic shared memory: scratch_bytes().
template <class Policy>
__global__ void __launch_bounds__(decide_threads, 1)
    decide_slots(const session_device_view<Policy> device_view, bool has_scratch) {
  extern __shared__ __align__(64) unsigned char scratch[];
  using space = decide_space<Policy>;
  // Bytes, because a shared variable cannot have a constructor; counted before, because nvcc 13
  // drops
  // __shared__ from a declaration that instantiates functions whose result types are deduced.
  constexpr std::size_t bytes = sizeof(space);
  __shared__ alignas(alignof(space)) unsigned char shared[bytes];
  decide_slot(device_block<decide_threads>{},
              device_view,
              static_cast<index_t>(blockIdx.x),
              has_scratch ? reinterpret_cast<std::byte*>(scratch) : nullptr,
              *reinterpret_cast<space*>(shared));
}

/// Starts one sequence, with one block.
template <class Policy>
__global__ void __launch_bounds__(decide_threads, 1)
    start_one(const session_device_view<Policy> device_view,
              index_t slot,
              const __grid_constant__ start_arguments<Policy> arguments) {
  static_assert(sizeof(arguments) + sizeof(device_view) + 2 * sizeof(index_t) <= 32764,
                "the knobs of this policy do not fit the arguments of a kernel (32,764 bytes)");
  start_slot(device_block<decide_threads>{}, arguments, device_view, slot);
}

}  // namespace unmask::device
