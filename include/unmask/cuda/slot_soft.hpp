// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/request.hpp>
#include <unmask/cuda/memory.hpp>
#include <unmask/step/soft_tokens.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
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
      next.outcomes.resize(static_cast<std::size_t>(window_));
      next.entries.resize(next.outcomes.size() * static_cast<std::size_t>(count));
      next.masked.resize(next.entries.size());
      next.committed.resize(next.entries.size());
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
    s.masked_size = s.committed_size = 0;
    return s.count > 0 ? s.on_device : nullptr;
  }

  /// Copies what the last step left of a slot. Synchronises.
  void fetch(index_t slot) {
    slot_rows& s = at(slot);
    if (s.count == 0) {
      return;
    }
    fetch_objects(s.outcomes.data(), s.rows.outcomes, s.outcomes.size(), stream_);
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    const auto last = std::find_if(s.outcomes.rbegin(), s.outcomes.rend(), [](auto outcome) {
      return outcome != step::soft_outcome::unread;
    });
    const auto places = static_cast<std::size_t>(s.outcomes.rend() - last);
    const std::size_t entries = places * static_cast<std::size_t>(s.count);
    fetch_objects(s.entries.data(), s.rows.entries, entries, stream_);
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    const step::soft_rows here{.count = s.count,
                               .places = static_cast<index_t>(places),
                               .outcomes = s.outcomes.data(),
                               .entries = s.entries.data()};
    s.masked_size = step::collect(here, step::soft_outcome::masked, s.masked.data());
    s.committed_size = step::collect(here, step::soft_outcome::committed, s.committed.data());
  }
  /// The entries that fetch() copied, of positions that are masked.
  [[nodiscard]] std::span<const token_probability> entries(index_t slot) const {
    return {at(slot).masked.data(), at(slot).masked_size};
  }
  /// The entries that fetch() copied, of positions that the step gave a token.
  [[nodiscard]] std::span<const token_probability> alternatives(index_t slot) const {
    return {at(slot).committed.data(), at(slot).committed_size};
  }

 private:
  struct slot_rows {
    index_t count = 0;  // of the sequence
    device_bytes memory;
    step::soft_rows* on_device = nullptr;
    step::soft_rows rows;  // with which the memory begins
    std::vector<step::soft_outcome> outcomes;
    std::vector<token_probability> entries;
    std::vector<token_probability> masked;
    std::vector<token_probability> committed;
    std::size_t masked_size = 0;
    std::size_t committed_size = 0;
  };

  [[nodiscard]] slot_rows& at(index_t slot) { return slots_[static_cast<std::size_t>(slot)]; }
  [[nodiscard]] const slot_rows& at(index_t slot) const {
    return slots_[static_cast<std::size_t>(slot)];
  }
  // The addresses in a block that begins at `base`. Returns its size.
  [[nodiscard]] std::size_t layout(std::byte* base, index_t count, slot_rows& s) const {
    const auto places = static_cast<std::size_t>(window_);
    step::slot_layout next{base};
    s.on_device = next.take<step::soft_rows>(1);
    s.rows.count = count;
    s.rows.places = window_;
    s.rows.rows = next.take<step::soft_row>(places);
    s.rows.outcomes = next.take<step::soft_outcome>(places);
    s.rows.entries = next.take<token_probability>(places * static_cast<std::size_t>(count));
    return next.used();
  }

  index_t window_;
  cudaStream_t stream_;
  allocator_ref allocator_;
  std::vector<slot_rows> slots_;
  slot_rows next_;  // of start()
};

}  // namespace unmask::device
