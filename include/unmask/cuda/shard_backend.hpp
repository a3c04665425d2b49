// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/backend.hpp>
#include <unmask/cuda/shards.hpp>

namespace UNMASK_NAMESPACE {

/// Workspace of a sharded_session on a stream in addition to the workspace of its session: its
/// messages on the device.
///
/// Errors: as on_stream::workspace.
template <class Policy>
class on_stream::shard_workspace {
 public:
  using messages = ranks::device_messages;

  /// Allocates all memory and synchronises with the stream. `nodes` is the number of nodes of a row
  /// for which a message has room.
  shard_workspace(const model_info& model,
                  const session_capacity& capacity,
                  range columns,
                  index_t nodes,
                  const on_stream& where);

  /// Size in bytes of every message.
  [[nodiscard]] std::size_t most_bytes() const {
    return ranks::message_bytes<Policy::required>(device_view_.header);
  }
  [[nodiscard]] std::size_t message_bytes(const workspace<Policy>& /*slots*/,
                                          std::span<const segment> /*all*/) const {
    return most_bytes();
  }

  /// Enqueues the read of this rank's columns: one launch for each 64 segments. Arguments as
  /// host::shard_workspace::read.
  [[nodiscard]] messages read(const workspace<Policy>& slots,
                              std::span<const segment> all,
                              range mine,
                              const rows_view<float, space>& logits,
                              const row_modifiers<float>& modifiers,
                              std::uint32_t step);
  [[nodiscard]] messages read(const workspace<Policy>& slots,
                              std::span<const segment> all,
                              range mine,
                              const rows_view<bfloat16, space>& logits,
                              const row_modifiers<bfloat16>& modifiers,
                              std::uint32_t step);
  [[nodiscard]] messages read(const workspace<Policy>& slots,
                              std::span<const segment> all,
                              range mine,
                              const rows_view<float16, space>& logits,
                              const row_modifiers<float16>& modifiers,
                              std::uint32_t step);

  /// Enqueues the merge of `count` messages: one launch. If they do not fit together, the rows of
  /// this step count as not given, and the next check_merged() throws.
  void merge(const workspace<Policy>& slots,
             std::span<const segment> all,
             messages from,
             index_t count,
             std::uint32_t step);

  /// Throws std::invalid_argument, once, for errors that the last merge detected. Synchronise with
  /// the stream first.
  void check_merged();

 private:
  template <class T>
  messages read_as(const workspace<Policy>& slots,
                   std::span<const segment> all,
                   range mine,
                   const rows_view<T, space>& logits,
                   const row_modifiers<T>& modifiers,
                   std::uint32_t step);

  session_capacity capacity_;
  on_stream where_;
  device::shard_device_view<Policy> device_view_;
  std::vector<device::shard_run> runs_;
  device::device_bytes memory_;
  device::pinned_bytes mirror_;
  // Lines whose logits were given to read() in this step.
  range read_;
};

}  // namespace unmask
