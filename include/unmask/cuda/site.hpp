// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/tuning.hpp>
#include <unmask/step/slot.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace UNMASK_NAMESPACE::device {

/// What the kernels know of a session: device memory that stays where it is for the session's life.
///
/// A line is a slot with one of its branches, in this order.
template <class Policy>
struct session_site {
  const step::slot_memory<Policy>* slots = nullptr;
  /// limits::branches.
  index_t branches = 0;
  row_shape shape;
  /// For each line and scored position: shape.runs records and a counter, which is zero between
  /// launches. Here the thread blocks that share a row meet.
  record<Policy::required>* parts = nullptr;
  std::uint32_t* arrived = nullptr;
  /// As `parts`, warp_list::held keys for each record. Null unless the policy truncates.
  std::uint64_t* held = nullptr;
  /// For each line: whether the logits that this step wants were given. Zero between steps.
  std::uint32_t* supplied = nullptr;
  /// For each slot: how many of its positions are through in a launch that also decides. Zero
  /// between launches.
  std::uint32_t* through = nullptr;
  /// Host memory that the device writes to: the statuses as the host sees them, and for each slot a
  /// word that is 1 while its sequence runs. Null where nobody looks.
  step::slot_status* mirror = nullptr;
  std::uint32_t* running = nullptr;

  [[nodiscard]] UNMASK_HD std::ptrdiff_t line(index_t slot, index_t branch) const {
    return std::ptrdiff_t{slot} * (1 + branches) + branch;
  }
};

/// Shows the host the status of a slot, which the block has just written.
template <class Policy>
UNMASK_HD void show(const auto& b, const session_site<Policy>& site, index_t slot) {
  if (site.mirror == nullptr) {
    return;
  }
  const step::slot_status* const status = site.slots[slot].status;
  static_assert(sizeof *status % sizeof(std::uint32_t) == 0);
  b.sync();
  const auto* const from = reinterpret_cast<const unsigned char*>(status);
  auto* const to = reinterpret_cast<unsigned char*>(site.mirror + slot);
  for (std::size_t i = sizeof(std::uint32_t) * static_cast<std::size_t>(b.lane());
       i < sizeof *status;
       i += sizeof(std::uint32_t) * static_cast<std::size_t>(b.lanes())) {
    std::uint32_t word = 0;
    memcpy(&word, from + i, sizeof word);
    memcpy(to + i, &word, sizeof word);
  }
  b.sync();
  if (b.lane() == 0) {
    b.publish(site.running + slot, status->next.active() ? 1U : 0U);
  }
}

/// Number of lines of a session.
[[nodiscard]] inline std::size_t lines_of(const limits& capacity) {
  return static_cast<std::size_t>(capacity.sequences) *
         static_cast<std::size_t>(1 + capacity.branches);
}

}  // namespace unmask::device
