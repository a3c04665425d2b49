// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/backend.hpp>
#include <unmask/cuda/decide_slot.hpp>
#include <unmask/cuda/hold_row.hpp>
#include <unmask/cuda/layer_workspace.hpp>
#include <unmask/cuda/write_mask.hpp>
#include <unmask/step/begin_constraints.hpp>
#include <unmask/step/check_soft_tokens.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <type_traits>

/// Members of on_stream::workspace, in C++: the kernels that they launch are declared here and
/// defined by backend.cuh, so that the tests can run everything without a device.
namespace UNMASK_NAMESPACE {

namespace device {

namespace detail {

template <class Policy>
struct reads {
  using type = row_reads<row_read{Policy::required, (step::stages<Policy>::edits > 0)}>;
};
template <class Policy>
  requires(Policy::varies)
struct reads<Policy> {
  using type = typename Policy::device_reads;
};

}  // namespace detail

/// The kernels that read the rows of a policy.
template <class Policy>
using reads_of = typename detail::reads<Policy>::type;

/// Enqueues read_position() for every segment of the batch, run and position of the window.
template <class T, row_read R, class Policy>
[[nodiscard]] cudaError_t launch_reads(const session_device_view<Policy>& device_view,
                                       const row_batch& batch,
                                       index_t window,
                                       cudaStream_t stream) noexcept;

/// Enqueues write_mask() for every segment of the batch, position of the window and piece.
template <class Policy>
[[nodiscard]] cudaError_t launch_masks(const session_device_view<Policy>& device_view,
                                       const row_batch& batch,
                                       index_t window,
                                       cudaStream_t stream) noexcept;

/// Enqueues hold_row() for every segment of the batch and position of the window.
template <class T, class Policy>
[[nodiscard]] cudaError_t launch_holds(const session_device_view<Policy>& device_view,
                                       const row_batch& batch,
                                       index_t window,
                                       cudaStream_t stream) noexcept;

/// Enqueues decide_slot() for slots [0, count), each with `scratch` bytes of shared memory.
template <class Policy>
[[nodiscard]] cudaError_t launch_decisions(const session_device_view<Policy>& device_view,
                                           index_t count,
                                           std::size_t scratch,
                                           cudaStream_t stream) noexcept;

/// Enqueues start_slot() for one slot.
template <class Policy>
[[nodiscard]] cudaError_t launch_start(const session_device_view<Policy>& device_view,
                                       index_t slot,
                                       const start_arguments<Policy>& arguments,
                                       cudaStream_t stream) noexcept;

}  // namespace device

template <class Policy>
on_stream::workspace<Policy>::workspace(const model_info& model,
                                        const session_capacity& capacity,
                                        const on_stream& where)
    : model_(model)
    , capacity_(capacity)
    , where_(where)
    , device_view_{.shape = device::shape_rows(
                       static_cast<std::int64_t>(device::lines_of(capacity)) * capacity.window,
                       model.vocab,
                       device::multiprocessors())}
    , scratch_(device::scratch_bytes<Policy>(capacity.window))
    , memory_(device::make_device_bytes(where.allocator,
                                        device::device_arrays<Policy>::at(nullptr, capacity).bytes,
                                        where.stream))
    , slot_memory_(static_cast<std::size_t>(capacity.sequences))
    , answers_(capacity, where.stream, where.allocator)
    , soft_(capacity, where.stream, where.allocator)
    , mirror_(device::make_pinned_bytes(device::host_arrays::at<Policy>(nullptr, capacity).bytes,
                                        where.stream))
    , seen_(device::make_event())
    , device_(device::device_arrays<Policy>::at(memory_.get(), capacity))
    , host_(device::host_arrays::at<Policy>(mirror_.get(), capacity))
    , passes_(capacity, host_)
    , needs_(slot_memory_.size())
    , slot_sizes_(slot_memory_.size())
    , row_kinds_(slot_memory_.size())
    , staged_(slot_memory_.size()) {
  check_argument(device_view_.shape.runs <= device::max_run_chunks,
                 "model_info::vocab",
                 model.vocab,
                 "at most " + std::to_string(device::max_run_chunks * device::max_run_chunks *
                                             canonical::chunk_columns));
  device_view_.slots = device_.slots;
  device_view_.answers = device_.answers;
  device_view_.soft = device_.soft;
  device_view_.finished = device_.finished;
  device_view_.mirror = host_.statuses;
  device_view_.running = host_.running;
  device_view_.passes = host_.passes;
  device_view_.budgets = host_.budgets;
  device_view_.layers = capacity.layers;
  for (index_t slot = 0; slot < capacity.sequences; ++slot) {
    std::construct_at(host_.statuses + slot);
    std::construct_at(host_.running + slot, std::uint32_t{0});
    if constexpr (Policy::layered) {
      std::construct_at(host_.passes + slot);
    }
  }
  // Zeroes: every slot is idle, every counter ready.
  device::check(cudaMemsetAsync(memory_.get(), 0, device_.bytes, where.stream), "cudaMemsetAsync");
  step::slot_needs needs = step::needs_of<Policy>(capacity);
  if constexpr (Policy::varies) {
    needs.compares = needs.layered = needs.reconsiders = false;
  }
  reserve_rows(math::max(capacity.branches, index_t{Policy::shadows ? 1 : 0}),
               Policy::truncates && !Policy::varies);
  for (index_t slot = 0; slot < capacity.sequences; ++slot) {
    reserve(slot, needs, false);
  }
}

// Makes room for the reads of rows. No launch may be under way that has not the memory yet.
template <class Policy>
void on_stream::workspace<Policy>::reserve_rows(index_t branches, bool truncates) {
  if (row_memory_ != nullptr && branches <= device_view_.branches && truncates <= truncates_) {
    return;
  }
  branches = math::max(branches, device_view_.branches);
  truncates = truncates || truncates_;
  const auto at = [&](std::byte* base) {
    return device::row_arrays<Policy>::at(base, capacity_, device_view_.shape, branches, truncates);
  };
  const std::size_t bytes = at(nullptr).bytes;
  auto memory = device::make_device_bytes(where_.allocator, bytes, where_.stream);
  const device::wait_before_release wait(memory, where_.stream);
  device::check(cudaMemsetAsync(memory.get(), 0, bytes, where_.stream), "cudaMemsetAsync");
  device::check(cudaStreamSynchronize(where_.stream), "cudaStreamSynchronize");
  row_memory_ = std::move(memory);
  const auto arrays = at(row_memory_.get());
  device_view_.branches = branches;
  device_view_.parts = arrays.parts;
  device_view_.arrived = arrays.arrived;
  device_view_.held = arrays.held;
  device_view_.supplied = arrays.supplied;
  truncates_ = truncates;
}

template <class Policy>
void on_stream::workspace<Policy>::reserve(index_t slot,
                                           const step::slot_needs& wanted,
                                           bool truncates) {
  reserve_rows(wanted.branches, truncates || truncates_);
  const auto i = static_cast<std::size_t>(slot);
  const step::slot_needs needs = slot_memory_[i] == nullptr ? wanted : wanted.joined(needs_[i]);
  if (slot_memory_[i] != nullptr && needs == needs_[i]) {
    return;
  }
  const std::size_t bytes = step::slot_bytes<Policy>(needs, capacity_);
  auto memory = device::make_device_bytes(where_.allocator, bytes, where_.stream);
  const auto m = device_.slot(memory.get(), needs, slot, capacity_);
  const device::wait_before_release wait(memory, where_.stream);
  device::check(cudaMemsetAsync(memory.get(), 0, bytes, where_.stream), "cudaMemsetAsync");
  device::check(
      cudaMemcpyAsync(device_.slots + slot, &m, sizeof m, cudaMemcpyHostToDevice, where_.stream),
      "cudaMemcpyAsync of a slot");
  device::check(cudaStreamSynchronize(where_.stream), "cudaStreamSynchronize");
  slot_memory_[i] = std::move(memory);
  needs_[i] = needs;
  slot_sizes_[i] = bytes;
  passes_.set_slot(slot, m.layers);
}

template <class Policy>
void on_stream::workspace<Policy>::constrain(index_t slot,
                                             const Policy& policy,
                                             tokens_view<memory::device> tokens,
                                             const sequence_shape& geometry,
                                             const start_options& options) {
  if constexpr (Policy::varies) {
    step::check_soft_tokens(policy, options.soft_tokens);
  } else {
    validate_without_soft_tokens(options, "a policy composed in C++ on a device");
  }
  unmask::detail::owned_answer answer;
  if (!options.constraints.empty()) {
    device::check_constrained(options, step::renoises_now(policy));
    const std::vector<token_id> given =
        device::copy_to_host(tokens.data, static_cast<std::size_t>(geometry.length), where_.stream);
    answer = step::begin_constraints(policy, model_, capacity_, given.data(), geometry, options);
  }
  answers_.prepare(std::move(answer), model_);
  soft_.prepare(slot, options.soft_tokens);
}

template <class Policy>
void on_stream::workspace<Policy>::start(index_t slot,
                                         const Policy& policy,
                                         tokens_view<memory::device> tokens,
                                         const sequence_shape& geometry,
                                         const start_options& options) {
  const auto i = static_cast<std::size_t>(slot);
  device::start_arguments<Policy> arguments{policy, model_, geometry, tokens.data};
  arguments.suppressed_count = suppressed_tokens(model_, options, arguments.suppressed);
  if (!options.editable.empty()) {
    if (staged_[i] != 0) {
      static_cast<void>(statuses());
    }
    const auto bytes = static_cast<std::size_t>(geometry.length);
    const std::size_t from = i * static_cast<std::size_t>(capacity_.length);
    std::copy_n(options.editable.data(), bytes, host_.editable + from);
    staged_[i] = 1;
    device::check(cudaMemcpyAsync(device_.editable + from,
                                  host_.editable + from,
                                  bytes,
                                  cudaMemcpyHostToDevice,
                                  where_.stream),
                  "cudaMemcpyAsync of start_options::editable");
    arguments.editable = device_.editable + from;
  }
  if constexpr (Policy::varies) {
    row_kinds_[i] = policy.device_read(capacity_.trace);
    arguments.read = Policy::device_reads::bits_of(row_kinds_[i]);
  }
  answers_.start(slot, device_.answers + slot);
  arguments.soft = soft_.start(slot);
  arguments.soft_count = options.soft_tokens;
  device::check(device::launch_start(device_view_, slot, arguments, where_.stream),
                "launch of start_one");
  if constexpr (Policy::layered) {
    passes_.start(slot, policy, geometry);
  }
  fetched_at_ = -1;
}

template <class Policy>
template <class T>
void on_stream::workspace<Policy>::enqueue_rows(const segment& s,
                                                const rows_view<T, space>& logits,
                                                const row_modifiers<T>& modifiers) {
  constexpr kind type = std::is_same_v<T, float>      ? kind::f32
                        : std::is_same_v<T, bfloat16> ? kind::bf16
                                                      : kind::f16;
  device::row_batch shared;
  shared.cfg_scale = modifiers.cfg_scale;
  shared.stride = logits.stride;
  shared.unconditional_stride = modifiers.unconditional_stride;
  shared.allowed_stride = modifiers.allowed_stride;
  const index_t row_kind = row_kinds_[static_cast<std::size_t>(s.slot)];
  if (kind_ != type || row_kind_ != row_kind || !batch_.takes_more_like(shared)) {
    run();
    batch_ = shared;
    kind_ = type;
    row_kind_ = row_kind;
  }
  const bool is_layered = Policy::layered && passes_.is_layered(s.slot);
  const range rows = is_layered ? range{0, logits.rows} : s.rows;
  batch_.segments[batch_.count++] = {
      logits.data, modifiers.unconditional, modifiers.allowed, rows, s.slot, segment_of_slot(s)};
}

template <class Policy>
void on_stream::workspace<Policy>::enqueue(const segment& s,
                                           const rows_view<float, space>& logits,
                                           const row_modifiers<float>& modifiers) {
  enqueue_rows(s, logits, modifiers);
}

template <class Policy>
void on_stream::workspace<Policy>::enqueue(const segment& s,
                                           const rows_view<bfloat16, space>& logits,
                                           const row_modifiers<bfloat16>& modifiers) {
  enqueue_rows(s, logits, modifiers);
}

template <class Policy>
void on_stream::workspace<Policy>::enqueue(const segment& s,
                                           const rows_view<float16, space>& logits,
                                           const row_modifiers<float16>& modifiers) {
  enqueue_rows(s, logits, modifiers);
}

template <class Policy>
void on_stream::workspace<Policy>::run() {
  if (batch_.count == 0) {
    return;
  }
  const device::row_batch batch = batch_;
  batch_.count = 0;
  if (std::any_of(batch.segments, batch.segments + batch.count, [&](const auto& rows) {
        return answers_.has(rows.slot);
      })) {
    device::check(device::launch_masks(device_view_, batch, capacity_.window, where_.stream),
                  "launch of write_masks");
  }
  const auto launch = [&](const auto& as) {
    return kind_ == kind::f32 ? as(float{}) : kind_ == kind::bf16 ? as(bfloat16{}) : as(float16{});
  };
  const auto read_as = [&]<class T>(const T&) {
    const auto launch_kind = [&]<row_read... R>(row_reads<R...>) {
      cudaError_t status = cudaSuccess;
      index_t k = 0;
      ((k++ == row_kind_ ? status = device::launch_reads<T, R>(
                               device_view_, batch, capacity_.window, where_.stream)
                         : status),
       ...);
      return status;
    };
    return launch_kind(device::reads_of<Policy>{});
  };
  if constexpr (Policy::varies) {  // before the reads, which truncate
    const auto hold_as = [&]<class T>(const T&) {
      return device::launch_holds<T>(device_view_, batch, capacity_.window, where_.stream);
    };
    if (std::any_of(batch.segments, batch.segments + batch.count, [&](const auto& rows) {
          return soft_.has(rows.slot);
        })) {
      device::check(launch(hold_as), "launch of hold_rows");
    }
  }
  device::check(launch(read_as), "launch of read_rows");
}

template <class Policy>
void on_stream::workspace<Policy>::decide(std::span<const segment>) {
  passes_.forget();
  run();
  device::check(
      device::launch_decisions(device_view_, capacity_.sequences, scratch_, where_.stream),
      "launch of decide_slots");
}

template <class Policy>
std::span<const step::slot_status> on_stream::workspace<Policy>::statuses() {
  // Recorded here and not in decide(): an event recorded in a captured graph could not be waited
  // for.
  device::check(cudaEventRecord(seen_.get(), where_.stream), "cudaEventRecord");
  device::check(cudaEventSynchronize(seen_.get()), "cudaEventSynchronize");
  std::fill(staged_.begin(), staged_.end(), std::uint8_t{0});
  return {host_.statuses, static_cast<std::size_t>(capacity_.sequences)};
}

template <class Policy>
std::span<const std::uint32_t> on_stream::workspace<Policy>::running() const {
  return {host_.running, static_cast<std::size_t>(capacity_.sequences)};
}

template <class Policy>
void on_stream::workspace<Policy>::cancel(index_t slot) {
  step::slot_status& status = host_.statuses[slot];
  if (status.next.active()) {
    status.cancel();
    host_.running[slot] = 0;
    status.report.constraint_met = answers_.has(slot) && answers_.is_met(slot);
    device::check(
        cudaMemcpyAsync(
            device_.statuses + slot, &status, sizeof status, cudaMemcpyHostToDevice, where_.stream),
        "cudaMemcpyAsync of a status");
  }
}

}  // namespace unmask

#include <unmask/cuda/workspace_lists.hpp>
