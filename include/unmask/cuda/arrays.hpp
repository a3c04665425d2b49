// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/device_view.hpp>
#include <unmask/step/slot.hpp>

#include <cstddef>
#include <cstdint>

/// Layout of a session's arrays in its two blocks of memory, on the device and on the host.
namespace UNMASK_NAMESPACE::device {

using arena = step::array_layout<256>;

/// Most entries of a slot's report of one step, and of its candidates if they are traced: of a
/// policy by name, the entries of a sequence with branches.
template <class Policy>
[[nodiscard]] std::size_t commits_per_slot(const session_capacity& capacity) {
  return static_cast<std::size_t>(
      step::most_commits(capacity, Policy::varies || capacity.branches > 0));
}
template <class Policy>
[[nodiscard]] std::size_t candidates_per_slot(const session_capacity& capacity) {
  return capacity.trace ? commits_per_slot<Policy>(capacity) : 0;
}

/// Most probe results of one step of a slot.
template <class Policy>
[[nodiscard]] std::size_t probe_results_per_slot(const session_capacity& capacity) {
  return static_cast<std::size_t>(capacity.window) * static_cast<std::size_t>(Policy::probes);
}

/// Arrays that the device writes and the host mirrors, and staging memory for editable positions.
struct mirrored_arrays {
  step::slot_status* statuses = nullptr;
  commit_entry* entries = nullptr;
  candidate_entry* traced = nullptr;
  token_probability* probe_results = nullptr;
  std::uint8_t* editable = nullptr;

  template <class Policy>
  void take(arena& next, const session_capacity& capacity) {
    const auto slots = static_cast<std::size_t>(capacity.sequences);
    statuses = next.take<step::slot_status>(slots);
    entries = next.take<commit_entry>(slots * commits_per_slot<Policy>(capacity));
    traced = next.take<candidate_entry>(slots * candidates_per_slot<Policy>(capacity));
    probe_results = next.take<token_probability>(slots * probe_results_per_slot<Policy>(capacity));
    editable = next.take<std::uint8_t>(slots * static_cast<std::size_t>(capacity.length));
  }
};

/// Device memory of a session, except its slots and the reads of rows.
template <class Policy>
struct device_arrays : mirrored_arrays {
  step::slot_memory<Policy>* slots = nullptr;
  step::answer_walk* answers = nullptr;
  step::soft_rows** soft = nullptr;
  std::uint32_t* finished = nullptr;
  std::size_t bytes = 0;

  [[nodiscard]] static device_arrays at(std::byte* base, const session_capacity& capacity) {
    const auto slots = static_cast<std::size_t>(capacity.sequences);
    arena next{base};
    device_arrays a;
    a.slots = next.take<step::slot_memory<Policy>>(slots);
    a.answers = next.take<step::answer_walk>(slots);
    a.soft = next.take<step::soft_rows*>(slots);
    a.template take<Policy>(next, capacity);
    a.finished = next.take<std::uint32_t>(slots);
    a.bytes = next.used();
    return a;
  }

  /// The memory of a slot with these needs, in the block that begins at `base`, for the kernels.
  [[nodiscard]] step::slot_memory<Policy> slot(std::byte* base,
                                               const step::slot_needs& needs,
                                               index_t which,
                                               const session_capacity& capacity) const {
    const auto i = static_cast<std::size_t>(which);
    auto m = step::slot_at<Policy>(base, needs, capacity, which);
    m.status = statuses + i;
    m.entries = entries + i * commits_per_slot<Policy>(capacity);
    if constexpr (Policy::probes > 0) {
      m.probe_results = probe_results + i * probe_results_per_slot<Policy>(capacity);
    }
    m.traced = capacity.trace ? traced + i * candidates_per_slot<Policy>(capacity) : nullptr;
    return m;
  }
};

/// Device memory of the reads of rows: cross-block reduction workspaces.
template <class Policy>
struct row_arrays {
  record<Policy::required>* parts = nullptr;
  std::uint32_t* arrived = nullptr;
  std::uint64_t* held = nullptr;
  std::uint32_t* supplied = nullptr;
  std::size_t bytes = 0;

  /// For at most this number of branches, and with or without truncation.
  [[nodiscard]] static row_arrays at(std::byte* base,
                                     const session_capacity& capacity,
                                     row_shape shape,
                                     index_t branches,
                                     bool truncates) {
    const std::size_t lines = lines_of(capacity, branches);
    const std::size_t rows = lines * static_cast<std::size_t>(capacity.window);
    arena next{base};
    row_arrays a;
    a.parts = next.take<record<Policy::required>>(rows * static_cast<std::size_t>(shape.runs));
    a.arrived = next.take<std::uint32_t>(rows);
    a.held = next.take<std::uint64_t>(
        truncates ? rows * static_cast<std::size_t>(shape.runs) * held_tokens::capacity : 0);
    a.supplied = next.take<std::uint32_t>(lines);
    a.bytes = next.used();
    return a;
  }
};

/// Host memory of a session: the mirror of the data that the host reads, and staging memory for the
/// device.
struct host_arrays : mirrored_arrays {
  std::uint32_t* running = nullptr;
  /// Only if the policy is layered.
  step::layer_state* passes = nullptr;
  index_t* budgets = nullptr;
  std::size_t bytes = 0;

  template <class Policy>
  [[nodiscard]] static host_arrays at(std::byte* base, const session_capacity& capacity) {
    const auto slots = static_cast<std::size_t>(capacity.sequences);
    arena next{base};
    host_arrays a;
    a.take<Policy>(next, capacity);
    a.running = next.take<std::uint32_t>(slots);
    if constexpr (Policy::layered) {
      a.passes = next.take<step::layer_state>(slots);
      a.budgets = next.take<index_t>(slots * static_cast<std::size_t>(capacity.layers));
    }
    a.bytes = next.used();
    return a;
  }
};

}  // namespace unmask::device
