// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/backend.hpp>
#include <unmask/cuda/shards.hpp>

namespace UNMASK_NAMESPACE {

/// What a sharded_session on a stream has beside its workspace: its messages on the device.
///
/// Throws as on_stream::workspace.
template <class Policy>
class on_stream::shard_workspace {
 public:
  using messages = ranks::device_messages;

  /// Allocates everything and waits for the stream. `nodes` is what a message has room for in a
  /// row.
  shard_workspace(const model_info& model,
                  const limits& capacity,
                  range columns,
                  index_t nodes,
                  const on_stream& where);

  /// Bytes of every message.
  [[nodiscard]] std::size_t most_bytes() const {
    return ranks::message_bytes<Policy::required>(site_.header);
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
                              const row_riders<float>& riders,
                              std::uint32_t step);
  [[nodiscard]] messages read(const workspace<Policy>& slots,
                              std::span<const segment> all,
                              range mine,
                              const rows_view<bfloat16, space>& logits,
                              const row_riders<bfloat16>& riders,
                              std::uint32_t step);
  [[nodiscard]] messages read(const workspace<Policy>& slots,
                              std::span<const segment> all,
                              range mine,
                              const rows_view<float16, space>& logits,
                              const row_riders<float16>& riders,
                              std::uint32_t step);

  /// Enqueues the merge of `count` messages: one launch. Where they do not go together the rows of
  /// this step count as not given, and the next check_merged() says why.
  void merge(const workspace<Policy>& slots,
             std::span<const segment> all,
             messages from,
             index_t count,
             std::uint32_t step);

  /// Throws std::invalid_argument, once, for what the last merge found. Wait for the stream first.
  void check_merged();

 private:
  template <class T>
  messages read_as(const workspace<Policy>& slots,
                   std::span<const segment> all,
                   range mine,
                   const rows_view<T, space>& logits,
                   const row_riders<T>& riders,
                   std::uint32_t step);

  limits capacity_;
  on_stream where_;
  device::shard_site<Policy> site_;
  std::vector<device::shard_run> runs_;
  device::device_bytes memory_;
  device::pinned_bytes mirror_;
  // Lines whose logits read() was given in this step.
  range read_;
};

}  // namespace unmask
