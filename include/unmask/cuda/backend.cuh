// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#if !defined(__CUDACC__)
#  error "this header holds kernels: include <unmask/cuda.hpp> from .cpp files"
#endif

#include <unmask/cuda/at_layer.cuh>
#include <unmask/cuda/decide.cuh>
#include <unmask/cuda/hold_row.cuh>
#include <unmask/cuda/key_selector.cuh>
#include <unmask/cuda/read_rows.cuh>
#include <unmask/cuda/rows.cuh>
#include <unmask/cuda/shard_workspace.hpp>
#include <unmask/cuda/shards.cuh>
#include <unmask/cuda/workspace.hpp>
#include <unmask/cuda/write_mask.cuh>

/// The kernels that on_stream::workspace and shard_workspace launch. With this header, a .cu file
/// can instantiate them.
namespace UNMASK_NAMESPACE::device {

template <class T, row_read R, class Policy>
cudaError_t launch_reads(const session_device_view<Policy>& device_view,
                         const row_batch& batch,
                         index_t window,
                         cudaStream_t stream) noexcept {
  const dim3 grid(static_cast<unsigned>(window),
                  static_cast<unsigned>(device_view.shape.runs),
                  static_cast<unsigned>(batch.count));
  read_rows<T, exact_exponential, R.contents.bits, R.transforms>
      <<<grid, static_cast<unsigned>(read_threads), 0, stream>>>(device_view, batch);
  return cudaGetLastError();
}

template <class Policy>
cudaError_t launch_masks(const session_device_view<Policy>& device_view,
                         const row_batch& batch,
                         index_t window,
                         cudaStream_t stream) noexcept {
  const dim3 grid(static_cast<unsigned>(window),
                  static_cast<unsigned>(mask_pieces),
                  static_cast<unsigned>(batch.count));
  write_masks<<<grid, static_cast<unsigned>(mask_threads), 0, stream>>>(device_view, batch);
  return cudaGetLastError();
}

template <class T, class Policy>
cudaError_t launch_holds(const session_device_view<Policy>& device_view,
                         const row_batch& batch,
                         index_t window,
                         cudaStream_t stream) noexcept {
  const dim3 grid(static_cast<unsigned>(window), static_cast<unsigned>(batch.count));
  hold_rows<T><<<grid, static_cast<unsigned>(hold_threads), 0, stream>>>(device_view, batch);
  return cudaGetLastError();
}

template <class Policy>
cudaError_t launch_decisions(const session_device_view<Policy>& device_view,
                             index_t count,
                             std::size_t scratch,
                             cudaStream_t stream) noexcept {
  decide_slots<<<static_cast<unsigned>(count),
                 static_cast<unsigned>(decide_threads),
                 scratch,
                 stream>>>(device_view, scratch > 0);
  return cudaGetLastError();
}

template <class Policy>
cudaError_t launch_start(const session_device_view<Policy>& device_view,
                         index_t slot,
                         const start_arguments<Policy>& arguments,
                         cudaStream_t stream) noexcept {
  start_one<<<1, static_cast<unsigned>(decide_threads), 0, stream>>>(device_view, slot, arguments);
  return cudaGetLastError();
}

template <class T, class Policy>
cudaError_t launch_shard_reads(const session_device_view<Policy>& device_view,
                               const shard_device_view<Policy>& shard,
                               const row_batch& batch,
                               index_t window,
                               cudaStream_t stream) noexcept {
  const dim3 grid(static_cast<unsigned>(window),
                  static_cast<unsigned>(math::max(shard.runs, 1)),
                  static_cast<unsigned>(math::max(batch.count, 1)));
  read_shards<T, exact_exponential>
      <<<grid, static_cast<unsigned>(read_threads), 0, stream>>>(device_view, shard, batch);
  return cudaGetLastError();
}

template <class Policy>
cudaError_t launch_merges(const session_device_view<Policy>& device_view,
                          const shard_device_view<Policy>& shard,
                          const std::byte* messages,
                          index_t count,
                          range read,
                          index_t lines,
                          cudaStream_t stream) noexcept {
  merge_shards<<<static_cast<unsigned>(lines), static_cast<unsigned>(decide_threads), 0, stream>>>(
      device_view, shard, messages, count, read);
  return cudaGetLastError();
}

template <class T, class Policy>
cudaError_t launch_layer(const session_device_view<Policy>& device_view,
                         const layer_batch<T>& batch,
                         index_t blocks,
                         cudaStream_t stream) noexcept {
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(batch.count));
  choose_at_layer<<<grid, static_cast<unsigned>(layer_threads), 0, stream>>>(device_view, batch);
  return cudaGetLastError();
}

template <class T, class Policy>
cudaError_t launch_store(const session_device_view<Policy>& device_view,
                         const layer_batch<T>& batch,
                         index_t most,
                         cudaStream_t stream) noexcept {
  const dim3 grid(static_cast<unsigned>(most), static_cast<unsigned>(batch.count));
  store_at_layer<<<grid, static_cast<unsigned>(layer_threads), 0, stream>>>(device_view, batch);
  return cudaGetLastError();
}

}  // namespace unmask::device
