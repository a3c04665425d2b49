// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/at_layer.hpp>
#include <unmask/cuda/backend.hpp>

/// Members of on_stream::workspace that an engine calls inside its layers; see workspace.hpp.
namespace UNMASK_NAMESPACE {

namespace device {

/// Enqueues layer_block() with `blocks` blocks for each segment of the batch.
template <class T, class Policy>
[[nodiscard]] cudaError_t launch_layer(const session_device_view<Policy>& device_view,
                                       const layer_batch<T>& batch,
                                       index_t blocks,
                                       cudaStream_t stream) noexcept;

/// Enqueues store_chosen() for rows [0, most) of each segment of the batch.
template <class T, class Policy>
[[nodiscard]] cudaError_t launch_store(const session_device_view<Policy>& device_view,
                                       const layer_batch<T>& batch,
                                       index_t most,
                                       cudaStream_t stream) noexcept;

}  // namespace device

template <class Policy>
template <class T>
void on_stream::workspace<Policy>::launch_hooks(const device::layer_batch<T>& batch) {
  if constexpr (step::layers::has_rule<Policy>) {
    index_t rows = 1;
    index_t most = 0;
    for (index_t n = 0; n < batch.count; ++n) {
      rows = math::max(rows, batch.segments[n].now.rows);
      most = math::max(most, batch.segments[n].most);
    }
    const index_t blocks = (rows + device::layer_rows - 1) / device::layer_rows;
    device::check(device::launch_layer(device_view_, batch, blocks, where_.stream),
                  "launch of choose_at_layer");
    if constexpr (!step::layers::all_store_all<Policy>) {
      if (most > 0) {
        device::check(device::launch_store(device_view_, batch, most, where_.stream),
                      "launch of store_at_layer");
      }
    }
  }
}

template <class Policy>
template <class T>
void on_stream::workspace<Policy>::choose(std::span<const segment> segments,
                                          index_t layer,
                                          std::span<layer_hook<T, space>> hooks) {
  device::layer_batch<T> batch;
  for (layer_hook<T, space>& h : hooks) {
    const index_t slot = segments[h.segment].slot;
    const index_t most = passes_.most_chosen(slot, layer);
    batch.segments[batch.count++] = {h.now, h.previous, slot, layer, most};
    if (batch.count == batch.capacity || &h == &hooks.back()) {
      launch_hooks(batch);
      batch.count = 0;
    }
    passes_.pass_hook(slot, layer, most);
    h.chosen = {passes_.chosen_rows(slot, most), passes_.chosen(slot, most)};
  }
}

template <class Policy>
void on_stream::workspace<Policy>::at_layer(std::span<const segment> segments,
                                            index_t layer,
                                            std::span<layer_hook<float, space>> hooks) {
  choose(segments, layer, hooks);
}

template <class Policy>
void on_stream::workspace<Policy>::at_layer(std::span<const segment> segments,
                                            index_t layer,
                                            std::span<layer_hook<bfloat16, space>> hooks) {
  choose(segments, layer, hooks);
}

template <class Policy>
void on_stream::workspace<Policy>::at_layer(std::span<const segment> segments,
                                            index_t layer,
                                            std::span<layer_hook<float16, space>> hooks) {
  choose(segments, layer, hooks);
}

}  // namespace unmask
