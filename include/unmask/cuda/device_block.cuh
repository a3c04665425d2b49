// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#if !defined(__CUDACC__)
#  error "this header holds kernels: include <unmask/cuda.hpp> from .cpp files"
#endif

#include <unmask/cuda/thread_block.hpp>

namespace UNMASK_NAMESPACE::device {

/// The thread block of a running kernel, one-dimensional, of whole warps.
struct device_block {
  [[nodiscard]] __device__ index_t lane() const { return static_cast<index_t>(threadIdx.x); }
  [[nodiscard]] __device__ index_t lanes() const { return static_cast<index_t>(blockDim.x); }
  __device__ void sync() const { __syncthreads(); }
  [[nodiscard]] __device__ lane_count count(bool yes) const {
    __shared__ index_t of_warp[most_warps];
    const std::uint32_t own = ballot(yes);
    if (warp_lane() == 0) {
      of_warp[warp()] = __popc(own);
    }
    sync();
    lane_count sum{__popc(own & ((1U << static_cast<unsigned>(warp_lane())) - 1U)), 0};
    for (index_t w = 0; w < warps(); ++w) {
      sum.before += w < warp() ? of_warp[w] : 0;
      sum.all += of_warp[w];
    }
    sync();
    return sum;
  }
  [[nodiscard]] __device__ std::uint64_t any(std::uint64_t bits) const {
    __shared__ std::uint64_t of_warp[most_warps];
    const std::uint32_t high = any_of_warp(static_cast<std::uint32_t>(bits >> 32U));
    const std::uint32_t low = any_of_warp(static_cast<std::uint32_t>(bits));
    if (warp_lane() == 0) {
      of_warp[warp()] = (std::uint64_t{high} << 32U) | low;
    }
    sync();
    std::uint64_t all = 0;
    for (index_t w = 0; w < warps(); ++w) {
      all |= of_warp[w];
    }
    sync();
    return all;
  }

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

 private:
  static constexpr index_t most_warps = 32;

  [[nodiscard]] __device__ std::uint32_t any_of_warp(std::uint32_t bits) const {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    return __reduce_or_sync(0xffffffffU, bits);
#else
    for (index_t distance = warp_threads / 2; distance > 0; distance /= 2) {
      bits |= shuffle_xor(bits, distance);
    }
    return bits;
#endif
  }
};
static_assert(thread_block<device_block>);

}  // namespace unmask::device
