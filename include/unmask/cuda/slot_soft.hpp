// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/request.hpp>
#include <unmask/cuda/memory.hpp>
#include <unmask/step/soft_tokens.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace UNMASK_NAMESPACE::device {

/// The soft tokens of the sequences of a session on a stream.
class slot_soft {
 public:
  slot_soft(const session_capacity& capacity, cudaStream_t stream, allocator_ref allocator)
      : window_(capacity.window)
      , stream_(stream)
      , allocator_(allocator)
      , slots_(static_cast<std::size_t>(capacity.sequences)) {}

  /// Whether the sequence in a slot asks for soft tokens.
  [[nodiscard]] bool has(index_t slot) const { return at(slot).count > 0; }

  /// Makes room for the sequence that starts next in a slot, which asks for `count` tokens of a
  /// row. Allocates and synchronises if the slot has no room for them.
  void prepare(index_t slot, index_t count) {
    next_ = {};
    if (count > at(slot).rows.count) {
      slot_rows next;
      const std::size_t bytes = layout(nullptr, count, next);
      next.memory = make_device_bytes(allocator_, bytes, stream_);
      const wait_before_release wait(next.memory, stream_);
      static_cast<void>(layout(next.memory.get(), count, next));
      check(cudaMemsetAsync(next.memory.get(), 0, bytes, stream_), "cudaMemsetAsync");
      check(cudaMemcpyAsync(
                next.on_device, &next.rows, sizeof next.rows, cudaMemcpyHostToDevice, stream_),
            "cudaMemcpyAsync of soft tokens");
      // Nothing uses the memory that this one will replace after that.
      check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
      next.entries.resize(static_cast<std::size_t>(window_) * static_cast<std::size_t>(count));
      next.alternatives.resize(next.entries.size());
      next_ = std::move(next);
    }
    next_.count = count;
  }
  /// The sequence of prepare() starts in its slot. Returns what it has on the device; null if it
  /// asks for none.
  [[nodiscard]] step::soft_rows* start(index_t slot) {
    slot_rows& s = at(slot);
    if (next_.memory != nullptr) {
      s = std::exchange(next_, {});
    } else {
      s.count = std::exchange(next_.count, 0);
    }
    s.size = s.alternatives_size = 0;
    return s.count > 0 ? s.on_device : nullptr;
  }

  /// Copies the lists of a slot's last step. Synchronises.
  void fetch(index_t slot) {
    slot_rows& s = at(slot);
    if (s.count == 0) {
      return;
    }
    step::soft_rows now;
    copy(&now, s.on_device, 1);
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    copy(s.entries.data(), now.entries, now.size);
    copy(s.alternatives.data(), now.alternatives, now.alternatives_size);
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    s.size = static_cast<std::size_t>(now.size);
    s.alternatives_size = static_cast<std::size_t>(now.alternatives_size);
  }
  /// The entries that fetch() copied, of positions that are masked.
  [[nodiscard]] std::span<const token_probability> entries(index_t slot) const {
    return {at(slot).entries.data(), at(slot).size};
  }
  /// Those of positions that the step gave a token.
  [[nodiscard]] std::span<const token_probability> alternatives(index_t slot) const {
    return {at(slot).alternatives.data(), at(slot).alternatives_size};
  }

 private:
  struct slot_rows {
    index_t count = 0;  // of the sequence
    device_bytes memory;
    step::soft_rows* on_device = nullptr;
    step::soft_rows rows;  // with which the memory begins
    std::vector<token_probability> entries;
    std::vector<token_probability> alternatives;
    std::size_t size = 0;
    std::size_t alternatives_size = 0;
  };

  [[nodiscard]] slot_rows& at(index_t slot) { return slots_[static_cast<std::size_t>(slot)]; }
  [[nodiscard]] const slot_rows& at(index_t slot) const {
    return slots_[static_cast<std::size_t>(slot)];
  }
  // The addresses in a block that begins at `base`. Returns its size.
  [[nodiscard]] std::size_t layout(std::byte* base, index_t count, slot_rows& s) const {
    const auto places = static_cast<std::size_t>(window_);
    const std::size_t entries = places * static_cast<std::size_t>(count);
    step::slot_layout next{base};
    s.on_device = next.take<step::soft_rows>(1);
    s.rows.count = count;
    s.rows.places = window_;
    s.rows.rows = next.take<step::soft_row>(places);
    s.rows.entries = next.take<token_probability>(entries);
    s.rows.alternatives = next.take<token_probability>(entries);
    return next.used();
  }
  template <class Entry>
  void copy(Entry* to, const Entry* from, index_t count) {
    if (count > 0) {
      check(cudaMemcpyAsync(to,
                            from,
                            static_cast<std::size_t>(count) * sizeof(Entry),
                            cudaMemcpyDeviceToHost,
                            stream_),
            "cudaMemcpyAsync of soft tokens");
    }
  }

  index_t window_;
  cudaStream_t stream_;
  allocator_ref allocator_;
  std::vector<slot_rows> slots_;
  slot_rows next_;  // of start()
};

}  // namespace unmask::device
