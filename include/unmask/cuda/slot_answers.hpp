// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/core/constrained_field.hpp>
#include <unmask/core/request.hpp>
#include <unmask/core/validate.hpp>
#include <unmask/cuda/memory.hpp>
#include <unmask/step/answer_walk.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace UNMASK_NAMESPACE::device {

/// Refuses what constraints on a device do not do.
inline void check_constrained(const start_options& options, bool has_canvas) {
  const bool reads_again = std::any_of(options.constraints.begin(),
                                       options.constraints.end(),
                                       [](const constrained_field& f) { return f.read_again; });
  if (reads_again || has_canvas) {
    unmask::detail::message()
        .add("constraint does not combine with ")
        .add(reads_again ? "read_again" : "a canvas")
        .add(" in a session on a device yet, whose step has no logits to read again: use a session "
             "on the host")
        .refuse();
  }
}

/// The constraints of a sequence in one block of memory: written on the host, and copied.
struct answer_block {
  step::answer_walk walk;
  std::vector<step::field_walk> fields;
  std::size_t bytes = 0;

  /// The arrays of a block that begins at `base`; null: only its size.
  [[nodiscard]] static answer_block at(std::byte* base,
                                       unmask::detail::constrained_answer& answer,
                                       const model_info& model,
                                       const session_capacity& capacity) {
    answer_block out;
    step::slot_layout next{base};
    step::answer_walk& w = out.walk;
    const std::size_t count = answer.fields();
    std::vector<unmask::detail::field_sizes> sizes;
    std::size_t most_positions = 0;
    for (std::size_t k = 0; k < count; ++k) {
      sizes.push_back(answer.sizes(k));
      w.class_words = std::max(w.class_words, (sizes[k].classes + 31) / 32);
      most_positions = std::max(most_positions, sizes[k].positions);
    }
    const auto window = static_cast<std::size_t>(capacity.window);
    w.count = static_cast<index_t>(count);
    w.mask_words = (static_cast<std::size_t>(model.vocab) + 31) / 32;
    w.fields = next.take<step::field_walk>(count);
    w.placed = next.take<unmask::detail::placed_token>(capacity.length + 1);
    w.certain = next.take<token_id>(most_positions);
    w.entries = next.take<commit_entry>(list_size(capacity));
    w.traced = next.take<candidate_entry>(capacity.trace ? list_size(capacity) : 0);
    w.masks = next.take<std::uint32_t>(window * w.mask_words);
    w.classes = next.take<std::uint32_t>(window * step::answer_walk::mask_pieces * w.class_words);
    out.fields.resize(count);
    for (std::size_t k = 0; k < count; ++k) {
      out.fields[k].take(next, sizes[k]);
    }
    out.bytes = next.used();
    return out;
  }

  /// Most entries of a list of one step.
  [[nodiscard]] static std::size_t list_size(const session_capacity& capacity) {
    return static_cast<std::size_t>(capacity.length) + static_cast<std::size_t>(capacity.window) +
           1;
  }

  /// Writes what the memory of this block has to contain to `base`, which has zeroes of this size.
  void write(std::byte* base,
             unmask::detail::constrained_answer& answer,
             const model_info& model,
             const session_capacity& capacity) {
    const answer_block here = at(base, answer, model, capacity);
    for (std::size_t k = 0; k < fields.size(); ++k) {
      step::field_walk tables = here.fields[k];
      answer.write_tables(k, tables);
      static_cast<unmask::detail::field_state&>(fields[k]) = tables;
      here.walk.fields[k] = fields[k];
    }
  }
};

/// The constraints of the sequences of a session on a stream.
class slot_answers {
 public:
  slot_answers(const session_capacity& capacity, cudaStream_t stream, allocator_ref allocator)
      : capacity_(capacity)
      , stream_(stream)
      , allocator_(allocator)
      , slots_(static_cast<std::size_t>(capacity.sequences)) {}

  [[nodiscard]] bool has(index_t slot) const { return at(slot).of_host.get() != nullptr; }

  /// Makes the constraints of the sequence that starts next; null: it has none. Allocates, and
  /// synchronises.
  void prepare(unmask::detail::owned_answer of_host, const model_info& model) {
    next_ = {};
    if (of_host.get() == nullptr) {
      return;
    }
    slot_answer next;
    auto& answer = *of_host.get();
    const std::size_t bytes = answer_block::at(nullptr, answer, model, capacity_).bytes;
    next.memory = make_device_bytes(allocator_, bytes, stream_);
    const wait_before_release wait(next.memory, stream_);
    next.block = answer_block::at(next.memory.get(), answer, model, capacity_);
    std::vector<line> contents(bytes / sizeof(line) + 1);
    next.block.write(reinterpret_cast<std::byte*>(contents.data()), answer, model, capacity_);
    check(
        cudaMemcpyAsync(next.memory.get(), contents.data(), bytes, cudaMemcpyHostToDevice, stream_),
        "cudaMemcpyAsync of a constraint");
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    next.entries.resize(answer_block::list_size(capacity_));
    next.traced.resize(capacity_.trace ? next.entries.size() : 0);
    next.of_host = std::move(of_host);
    next_ = std::move(next);
  }

  /// The sequence of prepare() starts in a slot. Synchronises if it has constraints.
  void start(index_t slot, step::answer_walk* on_device) {
    const bool had = has(slot);
    at(slot) = std::move(next_);
    next_ = {};
    if (has(slot)) {
      check(cudaMemcpyAsync(on_device,
                            &at(slot).block.walk,
                            sizeof(step::answer_walk),
                            cudaMemcpyHostToDevice,
                            stream_),
            "cudaMemcpyAsync of a constraint");
      check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    } else if (had) {
      check(cudaMemsetAsync(on_device, 0, sizeof(step::answer_walk), stream_), "cudaMemsetAsync");
    }
  }

  /// The state of a field after its committed prefix. Synchronises.
  [[nodiscard]] std::uint32_t state(index_t slot, std::size_t field) {
    check_order(has(slot), "constraint_state() of a sequence without constraints");
    at(slot).of_host.get()->check_field(field);
    return at(slot).of_host.get()->state_of(field, symbols(slot, field).data());
  }
  /// Whether all fields are strings of their language. Synchronises.
  [[nodiscard]] bool is_met(index_t slot) {
    bool all = true;
    for (std::size_t k = 0; k < at(slot).block.fields.size(); ++k) {
      all = at(slot).of_host.get()->is_string(k, symbols(slot, k).data()) && all;
    }
    return all;
  }

  /// Enqueues the copy of a slot's lists, which are in the memory of its constraints.
  void fetch(index_t slot, const sequence_report& report) {
    slot_answer& a = at(slot);
    const auto commits = static_cast<std::size_t>(report.last_commits);
    const auto candidates = static_cast<std::size_t>(capacity_.trace ? report.last_candidates : 0);
    fetch_objects(a.entries.data(), a.block.walk.entries, commits, stream_);
    fetch_objects(a.traced.data(), a.block.walk.traced, candidates, stream_);
  }
  [[nodiscard]] const commit_entry* entries(index_t slot) const { return at(slot).entries.data(); }
  [[nodiscard]] const candidate_entry* traced(index_t slot) const { return at(slot).traced.data(); }

 private:
  struct alignas(step::slot_layout::alignment) line {
    std::byte bytes[step::slot_layout::alignment] = {};
  };
  struct slot_answer {
    unmask::detail::owned_answer of_host;  // from which the tables were written
    answer_block block;
    device_bytes memory;
    std::vector<commit_entry> entries;
    std::vector<candidate_entry> traced;
  };

  [[nodiscard]] slot_answer& at(index_t slot) { return slots_[static_cast<std::size_t>(slot)]; }
  [[nodiscard]] const slot_answer& at(index_t slot) const {
    return slots_[static_cast<std::size_t>(slot)];
  }
  [[nodiscard]] std::vector<std::uint32_t> symbols(index_t slot, std::size_t field) {
    const step::field_walk& f = at(slot).block.fields[field];
    return copy_to_host(f.symbols, f.n.positions, stream_);
  }

  session_capacity capacity_;
  cudaStream_t stream_;
  allocator_ref allocator_;
  std::vector<slot_answer> slots_;
  slot_answer next_;  // of start()
};

}  // namespace unmask::device
