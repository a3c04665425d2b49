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
#include <unmask/cuda/tuning.hpp>
#include <unmask/step/slot.hpp>

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <vector>

namespace UNMASK_NAMESPACE {

/// The CUDA backend: kernels over the engine's device memory, in the order of one stream.
///
/// start(), supply() and a pass's at_layer() only enqueue; next(), report() and their like wait.
/// Tokens, logits and the arrays of row_riders are device memory; start_options is host memory and
/// is copied at once.
///
/// supply() may be captured into a CUDA graph, the engine's forward pass with it: it allocates
/// nothing, copies nothing and waits for nothing; it is one kernel, which reads and decides (see
/// workspace::decide() for when it is two). A captured step reads its plan on
/// the device, so the graph may be replayed while the sequences move on, as long as it computes the
/// same rows: the logits of a position are read from where they were at the capture. For a sequence
/// that has ended, or that wants other rows by now, a replay does nothing, so it is never too late
/// to look: report() tells how far it got, next() what to run then. (Lookahead branches place other
/// tokens in each step, which a captured forward pass cannot know: do not replay those. Of passes
/// that a policy is asked in, at their layers, see cuda/README.md.)
///
/// A session<Policy, on_stream> needs `template class unmask::on_stream::workspace<Policy>;` in one
/// .cu file that includes <unmask/cuda.cuh>; everything else may be C++.
struct on_stream {
  static constexpr memory space = memory::device;

  /// Must outlive the session and belong to the device that is current whenever the session is
  /// used.
  cudaStream_t stream = nullptr;
  /// Where device memory comes from; used when a session is made and when it is destroyed.
  device::allocator_ref allocator = {};

  template <class Policy>
  class workspace;
  /// For sharded_session: see shard_backend.hpp.
  template <class Policy>
  class shard_workspace;
};

/// Slots of a session on the device, and their mirror on the host.
///
/// Throws cuda_error when the device fails, std::bad_alloc or what the allocator throws when there
/// is no memory; a constructor that throws leaves nothing behind.
template <class Policy>
class on_stream::workspace {
 public:
  /// Allocates everything and waits for the stream.
  workspace(const model_info& model, const limits& capacity, const on_stream& where);

  /// Enqueues the start of a sequence. Waits only if the slot was started, with options.editable,
  /// and nobody has looked at the session since.
  void start(index_t slot,
             const Policy& policy,
             tokens_view<memory::device> tokens,
             const layout& geometry,
             const start_options& options);

  /// Notes one segment's logits; decide() reads them. Row r of `logits` is wanted row r.
  void
  read(const segment& s, const rows_view<float, space>& logits, const row_riders<float>& riders);
  void read(const segment& s,
            const rows_view<bfloat16, space>& logits,
            const row_riders<bfloat16>& riders);
  void read(const segment& s,
            const rows_view<float16, space>& logits,
            const row_riders<float16>& riders);

  /// Enqueues the read of the rows noted so far.
  void flush();

  /// Enqueues what is left to read and the decision of every running slot: one launch if flush()
  /// had nothing to do in this step, the segments fit one row_batch and the window is no larger
  /// than device::joint_window, else two. The kernels write the statuses to the host themselves.
  void decide();

  /// Waits for the stream.
  [[nodiscard]] std::span<const step::slot_status> statuses();

  /// A word for each slot, 1 while its sequence runs, which each step writes when it is through.
  /// Host memory that the device reads, too.
  [[nodiscard]] std::span<const std::uint32_t> running() const;

  /// What the last step committed, what it decided about and what it was asked. The first call
  /// after a step copies the lists of all slots and waits. Call statuses() first.
  [[nodiscard]] std::span<const commit_entry> committed(index_t slot, index_t count);
  [[nodiscard]] std::span<const candidate_entry> candidates(index_t slot, index_t count);
  [[nodiscard]] std::span<const token_probability> probabilities(index_t slot, index_t count);

  /// Enqueues the end of a sequence. Call statuses() first.
  void cancel(index_t slot);

  /// Where a slot's pass through the layers stands, as far as the host knows it; see
  /// device::known_passes. Of a policy that is asked at layers.
  [[nodiscard]] bool hooks(index_t slot, index_t layer) { return passes_.hooks(slot, layer); }
  [[nodiscard]] index_t next_hook(index_t slot) { return passes_.next_hook(slot); }
  [[nodiscard]] bool has_passed(index_t slot) { return passes_.has_passed(slot); }
  [[nodiscard]] index_t logits_rows(index_t slot) { return passes_.rows(slot).most; }
  [[nodiscard]] device_list positions(index_t slot) { return passes_.positions(slot); }
  [[nodiscard]] device_list rows(index_t slot) { return passes_.rows(slot); }

  /// Enqueues the choice of the segments' rows at a layer and the store of rows for the next pass:
  /// for each device::layer_batch one launch if the rule stores all rows, else two. Waits for
  /// nothing.
  void at_layer(std::span<const segment> segments,
                index_t layer,
                std::span<layer_hook<float, space>> hooks);
  void at_layer(std::span<const segment> segments,
                index_t layer,
                std::span<layer_hook<bfloat16, space>> hooks);
  void at_layer(std::span<const segment> segments,
                index_t layer,
                std::span<layer_hook<float16, space>> hooks);

  /// What the kernels know of the session, and the threads of a block that decides a slot.
  [[nodiscard]] const device::session_site<Policy>& site() const { return site_; }
  [[nodiscard]] unsigned decide_block() const;

 private:
  enum class kind : unsigned char { f32, bf16, f16 };

  void launch(bool decides);
  [[nodiscard]] std::int64_t forwards() const;
  void fetch_lists();
  template <class Entry>
  void fetch(Entry* to, const Entry* from, std::size_t per_slot, index_t most);
  template <class T>
  void note(const segment& s, const rows_view<T, space>& logits, const row_riders<T>& riders);
  template <class T>
  void
  choose(std::span<const segment> segments, index_t layer, std::span<layer_hook<T, space>> hooks);
  template <class T>
  void launch_hooks(const device::layer_batch<T>& batch);

  model_info model_;
  limits capacity_;
  on_stream where_;
  device::session_site<Policy> site_;
  std::size_t scratch_;
  device::device_bytes memory_;
  device::pinned_bytes mirror_;
  device::event seen_;
  device::device_arrays<Policy> device_;
  device::host_arrays host_;
  device::known_passes<Policy> passes_;
  // Segments noted since the last launch.
  device::row_batch batch_;
  kind kind_ = kind::f32;
  // Whether a part of this step was launched already.
  bool split_ = false;
  // Slots whose `editable` bytes may still be on their way.
  std::vector<std::uint8_t> staged_;
  // forwards() when the lists were copied; -1 if never.
  std::int64_t fetched_at_ = -1;
};

}  // namespace unmask
