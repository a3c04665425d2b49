// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/read_rows.hpp>

namespace UNMASK_NAMESPACE::device {

/// Threads of a block that writes a mask.
inline constexpr index_t mask_threads = 256;

/// The work of one thread block: the mask of scored position i for segment `n` of the batch, and-ed
/// with the one that the host gives. No effect on slots without constraints.
template <class Policy>
UNMASK_HD void write_mask(const auto& b,
                          const session_device_view<Policy>& device_view,
                          const row_batch& batch,
                          index_t n,
                          index_t i) {
  const segment_rows& from = batch.segments[n];
  const step::slot_memory<Policy>& m = device_view.slots[from.slot];
  const step::answer_walk* const answer = device_view.answer_of(from.slot);
  const index_t position = m.read_range().first + i;
  row_input<float> row;  // of which the address of the given mask is of interest
  if (answer == nullptr || !m.status->next.active() || !detail::has_rows(m, from) ||
      !detail::row_of<stat::none>(m, batch, from, i, row)) {
    return;
  }
  const step::field_walk* const f = answer->field_at(position);
  const index_t vocab = m.state->model.vocab;
  std::uint8_t* const possible =
      answer->possible + static_cast<std::size_t>(i) * answer->most_classes;
  if (f != nullptr) {
    for (index_t c = b.lane(); c < static_cast<index_t>(f->n.classes); c += b.lanes()) {
      possible[c] =
          f->is_possible(static_cast<std::uint32_t>(c), position - f->where.first) ? 1 : 0;
    }
    b.sync();
  }
  for (index_t w = b.lane(); w < static_cast<index_t>(answer->mask_words); w += b.lanes()) {
    std::uint32_t bits = 0;
    for (index_t v = 32 * w; v < math::min(32 * w + 32, vocab); ++v) {
      const std::uint32_t c = f == nullptr ? 0 : f->class_of[v];
      const bool is_in = f == nullptr || (c != step::field_walk::no_class && possible[c] != 0);
      bits |= is_in ? std::uint32_t{1} << (v - 32 * w) : 0U;
    }
    answer->mask_of(i)[w] = bits & (row.allowed == nullptr ? 0xffffffffU : row.allowed[w]);
  }
}

}  // namespace unmask::device
