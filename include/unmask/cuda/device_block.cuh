// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#if !defined(__CUDACC__)
#  error "this header holds kernels: include <unmask/cuda.hpp> from .cpp files"
#endif

#include <unmask/cuda/thread_block.hpp>

#include <cub/block/block_scan.cuh>
#include <cuda/atomic>

namespace UNMASK_NAMESPACE::device {

/// The thread block of a running kernel, one-dimensional, of `Threads` threads in whole warps.
///
/// Whole numbers are added by CUB, and what other blocks or the host see goes through libcu++.
template <index_t Threads>
struct device_block {
  static_assert(Threads % warp_threads == 0);

  [[nodiscard]] __device__ index_t lane() const { return static_cast<index_t>(threadIdx.x); }
  [[nodiscard]] __device__ constexpr index_t lanes() const { return Threads; }
  __device__ void sync() const { __syncthreads(); }
  [[nodiscard]] __device__ lane_count count(bool yes) const {
    return exclusive_sum<index_t>(yes ? 1 : 0);
  }
  template <class N>
  [[nodiscard]] __device__ lane_sum<N> exclusive_sum(N x) const {
    using scan = cub::BlockScan<N, Threads, cub::BLOCK_SCAN_WARP_SCANS>;
    __shared__ typename scan::TempStorage space;
    lane_sum<N> sum;
    scan(space).ExclusiveSum(x, sum.before, sum.all);
    sync();  // before `space` is used again
    return sum;
  }
  [[nodiscard]] __device__ std::uint64_t any(std::uint64_t bits) const {
    __shared__ std::uint64_t of_warps[Threads / warp_threads];
    for (index_t m = warp_threads / 2; m > 0; m /= 2) {
      bits |= shuffle_xor(bits, m);
    }
    if (warp_lane() == 0) {
      of_warps[warp()] = bits;
    }
    sync();
    std::uint64_t all = 0;
    for (index_t w = 0; w < warps(); ++w) {
      all |= of_warps[w];
    }
    sync();  // before `of_warps` is written again
    return all;
  }

  [[nodiscard]] __device__ index_t warp() const { return lane() / warp_threads; }
  [[nodiscard]] __device__ constexpr index_t warps() const { return Threads / warp_threads; }
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
  // Mostly in shared memory, which cuda::atomic_ref does not recognise: it costs a test of the
  // address, and more.
  __device__ std::uint32_t add(std::uint32_t* sum, std::uint32_t x) const {
    return atomicAdd(sum, x);
  }
  // By halves: shared memory adds 32 bits at a time, and would compare and swap 64 again and again.
  __device__ void add(std::uint64_t* sum, std::uint64_t x) const {
    auto* const halves = reinterpret_cast<std::uint32_t*>(sum);
    const auto low = static_cast<std::uint32_t>(x);
    const std::uint32_t before = low == 0 ? 0 : atomicAdd(halves, low);
    const std::uint32_t carry = before + low < before ? 1 : 0;
    const std::uint32_t high = static_cast<std::uint32_t>(x >> 32U) + carry;
    if (high != 0) {
      atomicAdd(halves + 1, high);
    }
  }
  __device__ void sync_warp() const { __syncwarp(); }
  [[nodiscard]] __device__ std::uint32_t take_ticket(std::uint32_t* counter) const {
    const ::cuda::atomic_ref<std::uint32_t, ::cuda::thread_scope_device> tickets(*counter);
    return tickets.fetch_add(1U, ::cuda::memory_order_acq_rel);
  }
  __device__ void publish(std::uint32_t* where, std::uint32_t x) const {
    const ::cuda::atomic_ref<std::uint32_t, ::cuda::thread_scope_system> word(*where);
    word.store(x, ::cuda::memory_order_relaxed);
  }
};
static_assert(thread_block<device_block<warp_threads>>);

}  // namespace unmask::device
