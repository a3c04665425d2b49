// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/logits.hpp>
#include <unmask/core/request.hpp>
#include <unmask/core/validate.hpp>
#include <unmask/cuda/arrays.hpp>
#include <unmask/cuda/at_layer.hpp>
#include <unmask/cuda/memory.hpp>
#include <unmask/cuda/passes.hpp>
#include <unmask/cuda/read_rows.hpp>
#include <unmask/cuda/slot_answers.hpp>
#include <unmask/cuda/slot_soft.hpp>
#include <unmask/cuda/tuning.hpp>
#include <unmask/step/state_bytes.hpp>

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <vector>

namespace UNMASK_NAMESPACE {

/// The CUDA backend: kernels over the engine's device memory, in the order of one stream.
///
/// start(), supply() and a pass's at_layer() only enqueue; next(), report() and the calls that
/// return results synchronise. Tokens, logits and the arrays of row_modifiers are device memory;
/// start_options is host memory and is copied during the call.
///
/// supply() may be captured into a CUDA graph, together with the engine's forward pass: it
/// allocates and copies nothing and does not synchronise; it is two kernels: the first reads the
/// rows, the second decides. A captured step reads its plan on the device, so the graph may be
/// replayed as the sequences proceed, as long as it computes the same rows: the logits of a
/// position are read from their address at the capture. For a sequence that has ended, that needs
/// other rows, or whose policy by name needs statistics of rows that the one at the capture did
/// not, a replay has no effect, so the host may check at any later time: report() says how far it
/// got, next() what to compute then. (Do not replay lookahead branches: they place other tokens in
/// each step, which a captured forward pass cannot know. For layered policies see cuda/README.md.)
///
/// A session<Policy, on_stream> needs `template class unmask::on_stream::workspace<Policy>;` in one
/// .cu file that includes <unmask/cuda.cuh>; everything else may be C++.
struct on_stream {
  static constexpr memory space = memory::device;  ///< Memory of logits and tokens.

  /// The stream. It must outlive the session and belong to the device that is current whenever the
  /// session is used.
  cudaStream_t stream = nullptr;
  /// Source of device memory; used by the session's constructor and destructor.
  device::allocator_ref allocator = {};

  template <class Policy>
  class workspace;
  /// For sharded_session: see shard_backend.hpp.
  template <class Policy>
  class shard_workspace;
};

/// Slots of a session on the device, and their mirror on the host.
///
/// Errors: cuda_error if the device fails; std::bad_alloc, or the allocator's exception, without
/// memory. A constructor that throws releases everything.
template <class Policy>
class on_stream::workspace {
 public:
  /// Allocates all memory and synchronises with the stream.
  workspace(const model_info& model, const session_capacity& capacity, const on_stream& where);

  /// Prepares the constraints and the soft tokens of the sequence that start() begins next: copies
  /// its tokens to the host for constraints, allocates and synchronises if there are any. Errors:
  /// std::invalid_argument, before anything is changed.
  void constrain(index_t slot,
                 const Policy& policy,
                 tokens_view<memory::device> tokens,
                 const sequence_shape& geometry,
                 const start_options& options);

  /// The state of a constrained field after its committed prefix. Synchronises.
  [[nodiscard]] std::uint32_t constraint_state(index_t slot, std::size_t field) {
    return answers_.state(slot, field);
  }

  /// Enqueues the start of a sequence. Synchronises only if it has constraints, or if the slot was
  /// started with options.editable and statuses() was not called since.
  void start(index_t slot,
             const Policy& policy,
             tokens_view<memory::device> tokens,
             const sequence_shape& geometry,
             const start_options& options);

  /// Makes room for a sequence of this policy in a slot. If the slot has none it synchronises,
  /// allocates, and the sequence in it is lost; a graph that was captured before must be captured
  /// again.
  void reserve(index_t slot, const Policy& policy) {
    if constexpr (Policy::varies) {
      reserve(slot, step::needs_of(policy, capacity_), step::truncates_now(policy));
    }
  }

  /// Enqueues one segment's logits; decide() reads them. Row r of `logits` is row r of the
  /// request's segment.
  void enqueue(const segment& s,
               const rows_view<float, space>& logits,
               const row_modifiers<float>& modifiers);
  void enqueue(const segment& s,
               const rows_view<bfloat16, space>& logits,
               const row_modifiers<bfloat16>& modifiers);
  void enqueue(const segment& s,
               const rows_view<float16, space>& logits,
               const row_modifiers<float16>& modifiers);

  /// Enqueues the read of the rows given so far.
  void run();

  /// Enqueues the remaining reads and the decision of every slot whose rows were all given: two
  /// launches, if the segments fit one row_batch. The kernels write the statuses to host memory
  /// themselves.
  void decide(std::span<const segment> segments);

  /// Synchronises with the stream.
  [[nodiscard]] std::span<const step::slot_status> statuses();

  /// A word for each slot, 1 while its sequence runs, which each step writes at its end; it says
  /// nothing of other writes. Host memory that the device can read.
  [[nodiscard]] std::span<const std::uint32_t> running() const;

  /// Committed tokens, candidates and probe results of the last step. The first call after a step
  /// copies the lists of all slots and synchronises. Call statuses() first.
  [[nodiscard]] std::span<const commit_entry> committed(index_t slot, index_t count);
  [[nodiscard]] std::span<const candidate_entry> candidates(index_t slot, index_t count);
  [[nodiscard]] std::span<const token_probability> probabilities(index_t slot, index_t count);

  /// Soft tokens and alternatives of the last step. Each call copies both lists of the slot and
  /// synchronises, if its sequence asked for them.
  [[nodiscard]] std::span<const token_probability> soft_tokens(index_t slot) {
    soft_.fetch(slot);
    return soft_.entries(slot);
  }
  [[nodiscard]] std::span<const token_probability> alternatives(index_t slot) {
    soft_.fetch(slot);
    return soft_.alternatives(slot);
  }

  /// Enqueues the end of a sequence. Call statuses() first.
  void cancel(index_t slot);

  /// Progress of a slot's pass through the layers, as known to the host; see device::known_passes.
  /// For layered policies.
  [[nodiscard]] bool is_layered(index_t slot) { return passes_.is_layered(slot); }
  [[nodiscard]] bool hooks(index_t slot, index_t layer) { return passes_.hooks(slot, layer); }
  [[nodiscard]] index_t next_hook(index_t slot) { return passes_.next_hook(slot); }
  [[nodiscard]] bool has_passed(index_t slot) { return passes_.has_passed(slot); }
  [[nodiscard]] index_t logits_rows(index_t slot) { return passes_.rows(slot).most; }
  [[nodiscard]] device_list positions(index_t slot) { return passes_.positions(slot); }
  [[nodiscard]] device_list rows(index_t slot) { return passes_.rows(slot); }

  /// Enqueues the selection of the segments' rows at a layer and the storing of rows for the next
  /// pass: for each device::layer_batch one launch if the rule stores all rows, otherwise two. Does
  /// not synchronise.
  void at_layer(std::span<const segment> segments,
                index_t layer,
                std::span<layer_hook<float, space>> hooks);
  void at_layer(std::span<const segment> segments,
                index_t layer,
                std::span<layer_hook<bfloat16, space>> hooks);
  void at_layer(std::span<const segment> segments,
                index_t layer,
                std::span<layer_hook<float16, space>> hooks);

  /// Bytes of the slots.
  [[nodiscard]] std::size_t bytes() const {
    std::size_t sum = 0;
    for (const std::size_t size : slot_sizes_) {
      sum += size;
    }
    return sum;
  }

  /// The kernels' view of the session, and the number of threads of a block that decides a slot.
  [[nodiscard]] const device::session_device_view<Policy>& device_view() const {
    return device_view_;
  }

 private:
  enum class kind : unsigned char { f32, bf16, f16 };

  void reserve(index_t slot, const step::slot_needs& needs, bool truncates);
  void reserve_rows(index_t branches, bool truncates);
  [[nodiscard]] std::int64_t forwards() const;
  void fetch_lists();
  template <class Entry>
  void fetch(Entry* to, const Entry* from, std::size_t per_slot, index_t most);
  template <class T>
  void enqueue_rows(const segment& s,
                    const rows_view<T, space>& logits,
                    const row_modifiers<T>& modifiers);
  template <class T>
  void
  choose(std::span<const segment> segments, index_t layer, std::span<layer_hook<T, space>> hooks);
  template <class T>
  void launch_hooks(const device::layer_batch<T>& batch);

  model_info model_;
  session_capacity capacity_;
  on_stream where_;
  device::session_device_view<Policy> device_view_;
  std::size_t scratch_;
  device::device_bytes memory_;
  device::device_bytes row_memory_;
  std::vector<device::device_bytes> slot_memory_;  ///< by slot
  device::slot_answers answers_;
  device::slot_soft soft_;
  device::pinned_bytes mirror_;  ///< waits for the stream before what is above goes
  device::event seen_;
  device::device_arrays<Policy> device_;
  device::host_arrays host_;
  device::known_passes<Policy> passes_;
  // Segments given since the last launch.
  device::row_batch batch_;
  kind kind_ = kind::f32;
  index_t row_kind_ = 0;
  // By slot: needs of its memory, its size, and the kind of rows of its sequence.
  std::vector<step::slot_needs> needs_;
  std::vector<std::size_t> slot_sizes_;
  std::vector<index_t> row_kinds_;
  bool truncates_ = false;
  // Slots whose `editable` bytes may still be copied.
  std::vector<std::uint8_t> staged_;
  // forwards() when the lists were copied; -1 if never.
  std::int64_t fetched_at_ = -1;
};

}  // namespace unmask
