// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/read_rows.hpp>

namespace UNMASK_NAMESPACE::device {

/// Threads of a block that writes a piece of a mask, and the number of pieces.
inline constexpr index_t mask_threads = 512;
inline constexpr index_t mask_pieces = step::answer_walk::mask_pieces;

/// The work of one thread block: a piece of the mask of scored position i for segment `n` of the
/// batch, and-ed with the one that the host gives. No effect on slots without constraints.
template <class Policy>
UNMASK_HD void write_mask(const auto& b,
                          const session_device_view<Policy>& device_view,
                          const row_batch& batch,
                          index_t n,
                          index_t i,
                          index_t piece) {
  const segment_rows& from = batch.segments[n];
  const step::slot_memory<Policy>& m = device_view.slots[from.slot];
  const step::answer_walk* const answer = device_view.answer_of(from.slot);
  const index_t position = m.read_range().first + i;
  row_input<float> row;  // only the address of its given mask is used
  if (answer == nullptr || !m.status->next.active() || !detail::has_rows(m, from) ||
      !detail::row_of<stat::none>(m, batch, from, i, row)) {
    return;
  }
  const step::field_walk* const f = answer->field_at(position);
  const index_t vocab = m.state->model.vocab;
  std::uint32_t* const possible = answer->classes_of(i, piece);
  if (f != nullptr) {
    const auto classes = static_cast<index_t>(f->n.classes);
    for (index_t first = warp_threads * b.warp(); first < classes; first += b.lanes()) {
      const index_t c = first + b.warp_lane();
      const std::uint32_t bits =
          b.ballot(c < classes && f->is_possible_class<8>(static_cast<std::uint32_t>(c),
                                                          position - f->where.first));
      if (b.warp_lane() == 0) {
        possible[first / warp_threads] = bits;
      }
    }
    b.sync();
  }
  // A warp takes some words at a time, a token a thread: their classes lie side by side, and the
  // loads of one word do not wait for those of another.
  constexpr index_t at_a_time = 8;
  const auto words = static_cast<index_t>(answer->mask_words);
  const index_t rounds = (words + at_a_time * mask_pieces - 1) / (at_a_time * mask_pieces);
  const index_t last = math::min(words, (piece + 1) * rounds * at_a_time);
  std::uint32_t* const mask = answer->mask_of(i);
  for (index_t first = at_a_time * (piece * rounds + b.warp()); first < last;
       first += at_a_time * b.warps()) {
    std::uint32_t classes[at_a_time];
    unrolled<at_a_time>([&](index_t k) {
      const std::int64_t v = std::int64_t{warp_threads} * (first + k) + b.warp_lane();
      classes[k] = v >= vocab ? step::field_walk::no_class : f == nullptr ? 0 : f->class_of[v];
    });
    std::uint32_t mine = 0;  // the word of this thread
    unrolled<at_a_time>([&](index_t k) {
      const std::uint32_t c = classes[k];
      const bool is_in = c != step::field_walk::no_class &&
                         (f == nullptr || (possible[c / 32] >> c % 32 & 1U) != 0);
      const std::uint32_t bits = b.ballot(is_in);
      mine = k == b.warp_lane() ? bits : mine;
    });
    const index_t w = first + b.warp_lane();
    if (b.warp_lane() < at_a_time && w < last) {
      mask[w] = mine & (row.allowed == nullptr ? 0xffffffffU : row.allowed[w]);
    }
  }
}

}  // namespace unmask::device
