// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/layer.hpp>
#include <unmask/cuda/arithmetic.hpp>
#include <unmask/cuda/thread_block.hpp>

#include <cstdint>

namespace UNMASK_NAMESPACE::device {

/// Copies between a compact tensor and a state: row rows[k] of `from` to the row of positions[k] in
/// `to`, for all k; positions outside of `to` are skipped. `rows` and `positions` have the same
/// length.
template <element T>
struct row_copies {
  rows_view<T, memory::device> from;
  device_list rows;
  device_list positions;
  state_view<T, memory::device> to;
};

/// Copies `count` elements with a whole block, 16 bytes at a time if both addresses have the same
/// distance to a multiple of 16. The arrays do not overlap.
template <element T>
UNMASK_HD void copy_elements(const auto& b, const T* from, T* to, index_t count) {
  constexpr auto bytes = std::uintptr_t{widest_access};
  constexpr auto group = static_cast<index_t>(bytes / sizeof(T));
  const auto away = [](const T* p) { return reinterpret_cast<std::uintptr_t>(p) % bytes; };
  // Elements before the first aligned one, and those in complete groups behind it.
  index_t head = count;
  index_t whole = 0;
  if (away(from) == away(to)) {
    head = static_cast<index_t>((bytes - away(from)) % bytes / sizeof(T));
    head = math::min(head, count);
    whole = (count - head) / group * group;
  }
  for (index_t i = b.lane(); i < head; i += b.lanes()) {
    to[i] = from[i];
  }
  for (index_t i = head + group * b.lane(); i < head + whole; i += group * b.lanes()) {
    copy_widest(from + i, to + i);
  }
  for (index_t i = head + whole + b.lane(); i < count; i += b.lanes()) {
    to[i] = from[i];
  }
}

/// Copies row k: the work of one block. No effect behind the end of the list.
template <element T>
UNMASK_HD void copy_row(const auto& b, const row_copies<T>& copies, index_t k) {
  if (k >= copies.rows.size()) {
    return;
  }
  const index_t position = copies.positions[k];
  if (copies.to.positions.contains(position)) {
    copy_elements(b, copies.from.row(copies.rows[k]), copies.to.row(position), copies.from.columns);
  }
}

}  // namespace unmask::device
