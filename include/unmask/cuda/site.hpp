// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/tuning.hpp>
#include <unmask/step/slot.hpp>

#include <cstddef>
#include <cstdint>

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
  /// For each line: whether the logits that this step wants were given. Zero between steps.
  std::uint32_t* supplied = nullptr;

  [[nodiscard]] UNMASK_HD std::ptrdiff_t line(index_t slot, index_t branch) const {
    return std::ptrdiff_t{slot} * (1 + branches) + branch;
  }
};

/// Number of lines of a session.
[[nodiscard]] inline std::size_t lines_of(const limits& capacity) {
  return static_cast<std::size_t>(capacity.sequences) *
         static_cast<std::size_t>(1 + capacity.branches);
}

}  // namespace unmask::device
