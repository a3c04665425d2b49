// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/arrays.hpp>
#include <unmask/cuda/shard_backend.hpp>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

/// Members of on_stream::shard_workspace, in C++: the kernels that they launch are declared here
/// and defined by backend.cuh, so that the tests can run everything without a device.
namespace UNMASK_NAMESPACE {

namespace device {

/// Enqueues read_shard() for every segment of the batch, run and position of the window.
template <class T, class Policy>
[[nodiscard]] cudaError_t launch_shard_reads(const session_device_view<Policy>& device_view,
                                             const shard_device_view<Policy>& shard,
                                             const row_batch& batch,
                                             index_t window,
                                             cudaStream_t stream) noexcept;

/// Enqueues merge_line() for lines [0, lines).
template <class Policy>
[[nodiscard]] cudaError_t launch_merges(const session_device_view<Policy>& device_view,
                                        const shard_device_view<Policy>& shard,
                                        const std::byte* messages,
                                        index_t count,
                                        range read,
                                        index_t lines,
                                        cudaStream_t stream) noexcept;

/// Runs of a shard's nodes, with `run_chunks` chunks in a run.
[[nodiscard]] inline std::vector<shard_run>
runs_of_shard(range columns, index_t vocab, index_t run_chunks) {
  std::vector<shard_run> runs;
  for (index_t which = 0; !columns.empty(); ++which) {
    const range node = ranks::first_node(columns, vocab);
    const index_t chunks = canonical::chunks_of(node.size());
    for (index_t run = 0; run * run_chunks < chunks; ++run) {
      runs.push_back({node, which, run});
    }
    columns.first = node.last;
  }
  return runs;
}

/// Layout of a shard's arrays in its device memory.
template <class Policy>
struct shard_arrays {
  shard_run* run_list = nullptr;
  record<Policy::required>* parts = nullptr;
  std::uint32_t* arrived = nullptr;
  std::byte* message = nullptr;
  std::size_t bytes = 0;

  [[nodiscard]] static shard_arrays at(std::byte* base,
                                       const shard_device_view<Policy>& device_view) {
    const auto rows = static_cast<std::size_t>(device_view.header.all_rows);
    arena next{base};
    shard_arrays a;
    a.run_list = next.take<shard_run>(static_cast<std::size_t>(device_view.runs));
    a.parts =
        next.take<record<Policy::required>>(rows * static_cast<std::size_t>(device_view.runs));
    a.arrived = next.take<std::uint32_t>(rows * static_cast<std::size_t>(device_view.nodes));
    a.message = next.take<std::byte>(ranks::message_bytes<Policy::required>(device_view.header));
    a.bytes = next.used();
    return a;
  }
};

}  // namespace device

template <class Policy>
on_stream::shard_workspace<Policy>::shard_workspace(const model_info& model,
                                                    const session_capacity& capacity,
                                                    range columns,
                                                    index_t nodes,
                                                    const on_stream& where)
    : capacity_(capacity)
    , where_(where) {
  const auto rows = static_cast<index_t>(device::lines_of(capacity)) * capacity.window;
  device_view_.header.contents = Policy::required.bits;
  device_view_.header.vocab = model.vocab;
  device_view_.header.columns = columns;
  device_view_.header.all_rows = rows;
  device_view_.header.nodes = nodes;
  device_view_.header.tracked = step::tracked_capacity(Policy::tracks);
  device_view_.run_chunks =
      device::shape_rows(rows, columns.size(), device::multiprocessors()).run_chunks;
  runs_ = device::runs_of_shard(columns, model.vocab, device_view_.run_chunks);
  device_view_.runs = static_cast<index_t>(runs_.size());
  device_view_.nodes = ranks::nodes_of(columns, model.vocab);
  const std::size_t bytes = device::shard_arrays<Policy>::at(nullptr, device_view_).bytes;
  memory_ = device::make_device_bytes(where.allocator, bytes, where.stream);
  mirror_ = device::make_pinned_bytes(sizeof(ranks::complaint), where.stream);
  const auto arrays = device::shard_arrays<Policy>::at(memory_.get(), device_view_);
  device_view_.run_list = arrays.run_list;
  device_view_.parts = arrays.parts;
  device_view_.arrived = arrays.arrived;
  device_view_.message = arrays.message;
  device_view_.found = std::construct_at(reinterpret_cast<ranks::complaint*>(mirror_.get()));
  device::check(cudaMemsetAsync(memory_.get(), 0, bytes, where.stream), "cudaMemsetAsync");
  if (!runs_.empty()) {  // else this rank has no columns
    device::check(cudaMemcpyAsync(arrays.run_list,
                                  runs_.data(),
                                  runs_.size() * sizeof(device::shard_run),
                                  cudaMemcpyHostToDevice,
                                  where.stream),
                  "cudaMemcpyAsync of the runs of a shard");
  }
  device::check(cudaStreamSynchronize(where.stream), "cudaStreamSynchronize");
}

template <class Policy>
template <class T>
ranks::device_messages
on_stream::shard_workspace<Policy>::read_as(const workspace<Policy>& slots,
                                            std::span<const segment> all,
                                            range mine,
                                            const rows_view<T, space>& logits,
                                            const row_modifiers<T>& modifiers,
                                            std::uint32_t step) {
  const auto run = mine.empty() ? std::span<const segment>()
                                : all.subspan(static_cast<std::size_t>(mine.first),
                                              static_cast<std::size_t>(mine.size()));
  const auto line_of = [&](const segment& s) {
    return static_cast<index_t>(slots.device_view().line(s.slot, s.branch));
  };
  read_ = run.empty() ? range{} : range{line_of(run.front()), line_of(run.back()) + 1};
  device_view_.header.rows = {read_.first * capacity_.window, read_.last * capacity_.window};
  device_view_.header.step = step;
  device::row_batch batch;
  if (!device_view_.header.columns.empty()) {  // otherwise there may be no logits
    batch.cfg_scale = modifiers.cfg_scale;
    batch.stride = logits.stride;
    batch.unconditional_stride = modifiers.unconditional_stride;
    batch.allowed_stride = modifiers.allowed_stride;
  }
  const auto launch = [&] {
    device::check(device::launch_shard_reads<T>(
                      slots.device_view(), device_view_, batch, capacity_.window, where_.stream),
                  "launch of read_shards");
    batch.count = 0;
  };
  for (const segment& s : run) {
    if (batch.count == device::row_batch::capacity) {
      launch();
    }
    device::segment_rows& rows = batch.segments[batch.count++];
    rows = {};
    rows.rows = s.rows;
    rows.slot = s.slot;
    rows.branch = s.branch;
    if (!device_view_.header.columns.empty()) {
      const index_t first = s.first_row - run.front().first_row;
      const row_modifiers<T> beside = modifiers.from_row(first);
      rows.logits = logits.row(first);
      rows.unconditional = beside.unconditional;
      rows.allowed = beside.allowed;
    }
  }
  launch();
  return {device_view_.message, most_bytes()};
}

template <class Policy>
ranks::device_messages
on_stream::shard_workspace<Policy>::read(const workspace<Policy>& slots,
                                         std::span<const segment> all,
                                         range mine,
                                         const rows_view<float, space>& logits,
                                         const row_modifiers<float>& modifiers,
                                         std::uint32_t step) {
  return read_as(slots, all, mine, logits, modifiers, step);
}

template <class Policy>
ranks::device_messages
on_stream::shard_workspace<Policy>::read(const workspace<Policy>& slots,
                                         std::span<const segment> all,
                                         range mine,
                                         const rows_view<bfloat16, space>& logits,
                                         const row_modifiers<bfloat16>& modifiers,
                                         std::uint32_t step) {
  return read_as(slots, all, mine, logits, modifiers, step);
}

template <class Policy>
ranks::device_messages
on_stream::shard_workspace<Policy>::read(const workspace<Policy>& slots,
                                         std::span<const segment> all,
                                         range mine,
                                         const rows_view<float16, space>& logits,
                                         const row_modifiers<float16>& modifiers,
                                         std::uint32_t step) {
  return read_as(slots, all, mine, logits, modifiers, step);
}

template <class Policy>
void on_stream::shard_workspace<Policy>::merge(const workspace<Policy>& slots,
                                               std::span<const segment> /*all*/,
                                               messages from,
                                               index_t count,
                                               std::uint32_t step) {
  const auto address = reinterpret_cast<std::uintptr_t>(from.data());
  check_argument(
      address % alignof(float) == 0, "address of the messages", address, "a multiple of 4");
  device_view_.header.step = step;
  device::check(device::launch_merges(slots.device_view(),
                                      device_view_,
                                      from.data(),
                                      count,
                                      read_,
                                      static_cast<index_t>(device::lines_of(capacity_)),
                                      where_.stream),
                "launch of merge_shards");
  read_ = {};
}

template <class Policy>
void on_stream::shard_workspace<Policy>::check_merged() {
  ranks::check(std::exchange(*device_view_.found, {}));
}

}  // namespace unmask
