// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/read_row.hpp>
#include <unmask/cuda/site.hpp>
#include <unmask/step/position.hpp>

namespace UNMASK_NAMESPACE::device {

/// The logits of one segment, of any element type: `logits` is the row of position rows.first.
struct segment_rows {
  const void* logits = nullptr;
  const void* unconditional = nullptr;
  const std::uint32_t* allowed = nullptr;
  range rows;
  index_t slot = 0;
  index_t branch = 0;
};

/// The logits of several segments that share strides and guidance. It travels as a kernel's
/// argument: nothing to copy, nothing to wait for, and a captured graph keeps its own.
struct row_batch {
  static constexpr index_t capacity = 64;

  index_t count = 0;
  float guidance_scale = 0.0F;
  std::ptrdiff_t stride = 0;
  std::ptrdiff_t unconditional_stride = 0;
  std::ptrdiff_t allowed_stride = 0;
  segment_rows segments[capacity];

  /// True when a segment of a tensor like `other`'s can be added.
  [[nodiscard]] bool takes_more_like(const row_batch& other) const {
    return count < capacity && stride == other.stride && allowed_stride == other.allowed_stride &&
           unconditional_stride == other.unconditional_stride &&
           guidance_scale == other.guidance_scale;
  }
};

namespace detail {

// The row that position score.first + i of a segment's sequence is decided from; false if no
// decision is due there. Everything but the addresses is read from the plan on the device.
template <element T, class Policy>
[[nodiscard]] UNMASK_HD bool row_of(const step::slot_memory<Policy>& m,
                                    const row_batch& batch,
                                    const segment_rows& from,
                                    index_t i,
                                    row_input<T>& row) {
  const index_t position = m.status->next.score.first + i;
  if (position >= m.status->next.score.last || !m.reads(from.branch, i)) {
    return false;
  }
  const model_info& model = m.state->model;
  const std::ptrdiff_t r = math::max(position - model.row_shift, index_t{0}) - from.rows.first;
  row.logits = static_cast<const T*>(from.logits) + r * batch.stride;
  row.columns = model.vocab;
  if (from.allowed != nullptr) {
    row.allowed = from.allowed + r * batch.allowed_stride;
  }
  if (from.unconditional != nullptr) {
    row.unconditional = static_cast<const T*>(from.unconditional) + r * batch.unconditional_stride;
  }
  row.guidance_scale = batch.guidance_scale;
  m.blank(row, from.branch, i);
  row.draw = step::draw_of(m, i);
  m.recall(row, i);
  return true;
}

}  // namespace detail

/// The work of one thread block: run `run` of the row of position score.first + i for segment `n`
/// of the batch. Nothing if no decision is due there, or if the step wants rows that the segment
/// has not. `nodes` is shared memory, see read_row().
template <element T, class Exponential, class Policy>
UNMASK_HD void read_position(const auto& b,
                             const session_site<Policy>& site,
                             const row_batch& batch,
                             index_t n,
                             index_t i,
                             index_t run,
                             record<Policy::required>* nodes) {
  const segment_rows from = batch.segments[n];
  const step::slot_memory<Policy> m = site.slots[from.slot];
  const plan& now = m.status->next;
  const range wanted = m.status->rows;
  if (!now.active() || from.branch > now.branches ||
      (!wanted.empty() && (wanted.first < from.rows.first || wanted.last > from.rows.last))) {
    return;
  }
  const std::ptrdiff_t line = site.line(from.slot, from.branch);
  if (i == 0 && run == 0 && b.lane() == 0) {
    site.supplied[line] = 1;
  }
  row_input<T> row;
  if (detail::row_of(m, batch, from, i, row)) {
    const std::ptrdiff_t cell = line * m.window + i;
    const row_meeting<Policy::required> at{site.parts + cell * site.shape.runs,
                                           site.arrived + cell};
    record<Policy::required>& out = m.row(from.branch, i);
    read_row<Policy::required, Exponential>(
        b, row, step::edit_of(m), run, site.shape.run_chunks, at, nodes, out);
  }
}

}  // namespace unmask::device
