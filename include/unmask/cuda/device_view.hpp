// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/tuning.hpp>
#include <unmask/step/answer_walk.hpp>
#include <unmask/step/slot.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace UNMASK_NAMESPACE::device {

/// Device view of a session: addresses in device memory, constant for the session's life.
///
/// A line is a slot with one of its branches, in this order; a shadow has the line of branch 1.
template <class Policy>
struct session_device_view {
  const step::slot_memory<Policy>* slots = nullptr;
  /// By slot: the constraints of its sequence.
  step::answer_walk* answers = nullptr;
  /// By slot: the soft tokens of its sequence; null if it asks for none. Written by its start.
  step::soft_rows** soft = nullptr;
  /// Most lookahead branches of a slot.
  index_t branches = 0;
  row_shape shape;
  /// For each line and scored position: shape.runs records and a counter, which is zero between
  /// launches. Cross-block reduction workspace of a row.
  record<Policy::required>* parts = nullptr;
  std::uint32_t* arrived = nullptr;
  /// Like `parts`: warp_list::held keys for each record. Null unless the policy truncates.
  std::uint64_t* held = nullptr;
  /// For each line: whether the logits that this step needs were given. Zero between steps.
  std::uint32_t* supplied = nullptr;
  /// For each slot: number of the blocks of a hook that have finished. Zero between launches.
  std::uint32_t* finished = nullptr;
  /// Host memory that the device writes: the host's copy of the statuses, and for each slot a word
  /// that is 1 while its sequence runs. Null if the host does not read them.
  step::slot_status* mirror = nullptr;
  std::uint32_t* running = nullptr;
  /// For a layered policy: the next passes, and the budgets of their `layers` layers if
  /// its rule has allocate().
  step::layer_state* passes = nullptr;
  index_t* budgets = nullptr;
  index_t layers = 0;

  /// The constraints of the sequence in a slot; null without.
  [[nodiscard]] UNMASK_HD step::answer_walk* answer_of(index_t slot) const {
    return answers != nullptr && answers[slot].count > 0 ? answers + slot : nullptr;
  }
  /// The soft tokens of the sequence in a slot; null without.
  [[nodiscard]] UNMASK_HD step::soft_rows* soft_of(index_t slot) const {
    return soft != nullptr ? soft[slot] : nullptr;
  }
  [[nodiscard]] UNMASK_HD std::ptrdiff_t line(index_t slot, index_t branch) const {
    return std::ptrdiff_t{slot} * (1 + branches) + branch;
  }
};

/// Copies `count` objects with a thread group, word by word.
template <class T>
UNMASK_HD void copy_objects(const auto& t, const T* from, T* to, index_t count) {
  static_assert(sizeof(T) % sizeof(std::uint32_t) == 0);
  const std::size_t bytes = sizeof(T) * static_cast<std::size_t>(count);
  for (std::size_t i = sizeof(std::uint32_t) * static_cast<std::size_t>(t.lane()); i < bytes;
       i += sizeof(std::uint32_t) * static_cast<std::size_t>(t.lanes())) {
    std::uint32_t word = 0;
    memcpy(&word, reinterpret_cast<const unsigned char*>(from) + i, sizeof word);
    memcpy(reinterpret_cast<unsigned char*>(to) + i, &word, sizeof word);
  }
}

/// Writes the status of a slot, which the block has just written, to host memory.
template <class Policy>
UNMASK_HD void show(const auto& b, const session_device_view<Policy>& device_view, index_t slot) {
  if (device_view.mirror == nullptr) {
    return;
  }
  const step::slot_memory<Policy>& m = device_view.slots[slot];
  const step::slot_status* const status = m.status;
  b.sync();
  copy_objects(b, status, device_view.mirror + slot, 1);
  if constexpr (Policy::layered) {
    if (m.layers.state != nullptr) {
      copy_objects(b, m.layers.state, device_view.passes + slot, 1);
      copy_objects(b,
                   m.layers.budgets,
                   device_view.budgets + std::ptrdiff_t{slot} * device_view.layers,
                   device_view.layers);
    }
  }
  if (b.lane() == 0) {
    b.publish(device_view.running + slot, status->next.active() ? 1U : 0U);
  }
}

/// Number of lines of a session whose slots have at most the given number of branches.
[[nodiscard]] inline std::size_t lines_of(const session_capacity& capacity, index_t branches) {
  return static_cast<std::size_t>(capacity.sequences) * static_cast<std::size_t>(1 + branches);
}
[[nodiscard]] inline std::size_t lines_of(const session_capacity& capacity) {
  return lines_of(capacity, capacity.branches);
}

}  // namespace unmask::device
