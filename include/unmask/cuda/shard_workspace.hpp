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
[[nodiscard]] cudaError_t launch_shard_reads(const session_site<Policy>& site,
                                             const shard_site<Policy>& shard,
                                             const row_batch& batch,
                                             index_t window,
                                             cudaStream_t stream) noexcept;

/// Enqueues merge_line() for lines [0, lines), each with `threads` threads.
template <class Policy>
[[nodiscard]] cudaError_t launch_merges(const session_site<Policy>& site,
                                        const shard_site<Policy>& shard,
                                        const std::byte* messages,
                                        index_t count,
                                        range read,
                                        index_t lines,
                                        unsigned threads,
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
  shard_run* run = nullptr;
  record<Policy::required>* parts = nullptr;
  std::uint32_t* arrived = nullptr;
  std::byte* message = nullptr;
  std::size_t bytes = 0;

  [[nodiscard]] static shard_arrays at(std::byte* base, const shard_site<Policy>& site) {
    const auto rows = static_cast<std::size_t>(site.header.all_rows);
    arena next{base};
    shard_arrays a;
    a.run = next.take<shard_run>(static_cast<std::size_t>(site.runs));
    a.parts = next.take<record<Policy::required>>(rows * static_cast<std::size_t>(site.runs));
    a.arrived = next.take<std::uint32_t>(rows * static_cast<std::size_t>(site.nodes));
    a.message = next.take<std::byte>(ranks::message_bytes<Policy::required>(site.header));
    a.bytes = next.used();
    return a;
  }
};

}  // namespace device

template <class Policy>
on_stream::shard_workspace<Policy>::shard_workspace(const model_info& model,
                                                    const limits& capacity,
                                                    range columns,
                                                    index_t nodes,
                                                    const on_stream& where)
    : capacity_(capacity)
    , where_(where) {
  const auto rows = static_cast<index_t>(device::lines_of(capacity)) * capacity.window;
  site_.header.contents = Policy::required.bits;
  site_.header.vocab = model.vocab;
  site_.header.columns = columns;
  site_.header.all_rows = rows;
  site_.header.nodes = nodes;
  site_.header.watched = step::slot_memory<Policy>::watch_capacity;
  site_.run_chunks = device::shape_rows(rows, columns.size(), device::multiprocessors()).run_chunks;
  runs_ = device::runs_of_shard(columns, model.vocab, site_.run_chunks);
  site_.runs = static_cast<index_t>(runs_.size());
  site_.nodes = ranks::nodes_of(columns, model.vocab);
  const std::size_t bytes = device::shard_arrays<Policy>::at(nullptr, site_).bytes;
  memory_ = device::make_device_bytes(where.allocator, bytes, where.stream);
  mirror_ = device::make_pinned_bytes(sizeof(ranks::complaint), where.stream);
  const auto arrays = device::shard_arrays<Policy>::at(memory_.get(), site_);
  site_.run = arrays.run;
  site_.parts = arrays.parts;
  site_.arrived = arrays.arrived;
  site_.message = arrays.message;
  site_.found = std::construct_at(reinterpret_cast<ranks::complaint*>(mirror_.get()));
  device::check(cudaMemsetAsync(memory_.get(), 0, bytes, where.stream), "cudaMemsetAsync");
  if (!runs_.empty()) {  // else this rank has no columns
    device::check(cudaMemcpyAsync(arrays.run,
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
                                            const row_riders<T>& riders,
                                            std::uint32_t step) {
  const auto run = mine.empty() ? std::span<const segment>()
                                : all.subspan(static_cast<std::size_t>(mine.first),
                                              static_cast<std::size_t>(mine.size()));
  const auto line_of = [&](const segment& s) {
    return static_cast<index_t>(slots.site().line(s.slot, s.branch));
  };
  read_ = run.empty() ? range{} : range{line_of(run.front()), line_of(run.back()) + 1};
  site_.header.rows = {read_.first * capacity_.window, read_.last * capacity_.window};
  site_.header.step = step;
  device::row_batch batch;
  if (!site_.header.columns.empty()) {  // else there may be no logits
    batch.cfg_scale = riders.cfg_scale;
    batch.stride = logits.stride;
    batch.unconditional_stride = riders.unconditional_stride;
    batch.allowed_stride = riders.allowed_stride;
  }
  const auto launch = [&] {
    device::check(
        device::launch_shard_reads<T>(slots.site(), site_, batch, capacity_.window, where_.stream),
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
    if (!site_.header.columns.empty()) {
      const index_t first = s.first_row - run.front().first_row;
      const row_riders<T> beside = riders.from_row(first);
      rows.logits = logits.row(first);
      rows.unconditional = beside.unconditional;
      rows.allowed = beside.allowed;
    }
  }
  launch();
  return {site_.message, most_bytes()};
}

template <class Policy>
ranks::device_messages
on_stream::shard_workspace<Policy>::read(const workspace<Policy>& slots,
                                         std::span<const segment> all,
                                         range mine,
                                         const rows_view<float, space>& logits,
                                         const row_riders<float>& riders,
                                         std::uint32_t step) {
  return read_as(slots, all, mine, logits, riders, step);
}

template <class Policy>
ranks::device_messages
on_stream::shard_workspace<Policy>::read(const workspace<Policy>& slots,
                                         std::span<const segment> all,
                                         range mine,
                                         const rows_view<bfloat16, space>& logits,
                                         const row_riders<bfloat16>& riders,
                                         std::uint32_t step) {
  return read_as(slots, all, mine, logits, riders, step);
}

template <class Policy>
ranks::device_messages
on_stream::shard_workspace<Policy>::read(const workspace<Policy>& slots,
                                         std::span<const segment> all,
                                         range mine,
                                         const rows_view<float16, space>& logits,
                                         const row_riders<float16>& riders,
                                         std::uint32_t step) {
  return read_as(slots, all, mine, logits, riders, step);
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
  site_.header.step = step;
  device::check(device::launch_merges(slots.site(),
                                      site_,
                                      from.data(),
                                      count,
                                      read_,
                                      static_cast<index_t>(device::lines_of(capacity_)),
                                      slots.decide_block(),
                                      where_.stream),
                "launch of merge_shards");
  read_ = {};
}

template <class Policy>
void on_stream::shard_workspace<Policy>::check_merged() {
  ranks::check(std::exchange(*site_.found, {}));
}

}  // namespace unmask
