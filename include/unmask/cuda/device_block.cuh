// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#if !defined(__CUDACC__)
#  error "this header holds kernels: include <unmask/cuda.hpp> from .cpp files"
#endif

#include <unmask/cuda/thread_block.hpp>

namespace UNMASK_NAMESPACE::device {

/// The thread block of a running kernel, one-dimensional, of whole warps where warps are asked for.
struct device_block {
  [[nodiscard]] __device__ index_t lane() const { return static_cast<index_t>(threadIdx.x); }
  [[nodiscard]] __device__ index_t lanes() const { return static_cast<index_t>(blockDim.x); }
  __device__ void sync() const { __syncthreads(); }

  [[nodiscard]] __device__ index_t warp() const { return lane() / warp_threads; }
  [[nodiscard]] __device__ index_t warps() const { return lanes() / warp_threads; }
  [[nodiscard]] __device__ index_t warp_lane() const { return lane() % warp_threads; }
  template <class T>
  [[nodiscard]] __device__ T shuffle_xor(T x, index_t mask) const {
    return __shfl_xor_sync(0xffffffffU, x, mask);
  }
  template <class T>
  [[nodiscard]] __device__ T shuffle(T x, index_t from) const {
    return __shfl_sync(0xffffffffU, x, from);
  }
  [[nodiscard]] __device__ std::uint32_t ballot(bool x) const {
    return __ballot_sync(0xffffffffU, x);
  }
  __device__ void add(std::uint32_t* sum, std::uint32_t x) const { atomicAdd(sum, x); }
  __device__ void add(std::uint64_t* sum, std::uint64_t x) const {
    static_assert(sizeof(unsigned long long) == sizeof *sum);
    atomicAdd(reinterpret_cast<unsigned long long*>(sum), x);
  }
  __device__ void sync_warp() const { __syncwarp(); }
  __device__ void fence() const { __threadfence(); }
  [[nodiscard]] __device__ std::uint32_t take_ticket(std::uint32_t* counter) const {
    return atomicAdd(counter, 1U);
  }
  __device__ void publish(std::uint32_t* where, std::uint32_t x) const {
    __threadfence_system();
    *static_cast<volatile std::uint32_t*>(where) = x;
  }
};
static_assert(thread_block<device_block>);

}  // namespace unmask::device
