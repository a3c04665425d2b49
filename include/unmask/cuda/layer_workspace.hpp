// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/at_layer.hpp>
#include <unmask/cuda/backend.hpp>

/// The members of on_stream::workspace that an engine reaches inside its layers; see workspace.hpp.
namespace UNMASK_NAMESPACE {

namespace device {

/// Enqueues layer_block() with `blocks` blocks.
template <class T, class Policy>
[[nodiscard]] cudaError_t launch_layer(const session_site<Policy>& site,
                                       const layer_arguments<T>& arguments,
                                       index_t blocks,
                                       cudaStream_t stream) noexcept;

/// Enqueues store_chosen() for rows [0, arguments.most).
template <class T, class Policy>
[[nodiscard]] cudaError_t launch_store(const session_site<Policy>& site,
                                       const layer_arguments<T>& arguments,
                                       cudaStream_t stream) noexcept;

}  // namespace device

template <class Policy>
template <class T>
device_layer_choice on_stream::workspace<Policy>::choose(index_t slot,
                                                         index_t layer,
                                                         const rows_view<T, space>& now,
                                                         const state_view<T, space>& stored) {
  const index_t most = passes_.most_chosen(slot, layer);
  if constexpr (step::layers::has_rule<Policy>) {
    const device::layer_arguments<T> arguments{now, stored, slot, layer, most};
    const index_t blocks = math::max((now.rows + device::layer_rows - 1) / device::layer_rows, 1);
    device::check(device::launch_layer(site_, arguments, blocks, where_.stream),
                  "launch of choose_at_layer");
    if constexpr (!storing_all<step::layers::rule_of<Policy>>) {
      if (most > 0) {
        device::check(device::launch_store(site_, arguments, where_.stream),
                      "launch of store_at_layer");
      }
    }
    passes_.pass_hook(slot, layer, most);
  }
  return {passes_.chosen_rows(slot, most), passes_.chosen(slot, most)};
}

template <class Policy>
device_layer_choice on_stream::workspace<Policy>::at_layer(index_t slot,
                                                           index_t layer,
                                                           const rows_view<float, space>& now,
                                                           const state_view<float, space>& stored) {
  return choose(slot, layer, now, stored);
}

template <class Policy>
device_layer_choice
on_stream::workspace<Policy>::at_layer(index_t slot,
                                       index_t layer,
                                       const rows_view<bfloat16, space>& now,
                                       const state_view<bfloat16, space>& stored) {
  return choose(slot, layer, now, stored);
}

template <class Policy>
device_layer_choice
on_stream::workspace<Policy>::at_layer(index_t slot,
                                       index_t layer,
                                       const rows_view<float16, space>& now,
                                       const state_view<float16, space>& stored) {
  return choose(slot, layer, now, stored);
}

}  // namespace unmask
