// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/read_rows.hpp>
#include <unmask/step/soft_tokens.hpp>

namespace UNMASK_NAMESPACE::device {

/// Threads of a block that holds the columns of a row for its soft tokens.
inline constexpr index_t hold_threads = 512;

/// Shared memory of such a block.
template <element T, class Policy>
struct hold_space {
  warp_list lists[hold_threads / warp_threads];
  row_input<T> row;
  transform_type<Policy> transform;
  /// Written by lane 0, read by all.
  bool is_wanted;
};

/// The work of one thread block: holds the first columns of the row of scored position i for
/// segment `n` of the batch, as host::hold_row() does, if its position is masked and its sequence
/// asks for soft tokens. A block reads the whole row.
template <element T, class Policy>
UNMASK_HD void hold_row(const auto& b,
                        const session_device_view<Policy>& device_view,
                        const row_batch& batch,
                        index_t n,
                        index_t i,
                        hold_space<T, Policy>& space) {
  const segment_rows& from = batch.segments[n];
  step::soft_rows* const soft = device_view.soft_of(from.slot);
  if (soft == nullptr) {
    return;
  }
  if (b.lane() == 0) {
    const step::slot_memory<Policy> m = device_view.slots[from.slot];
    const plan& now = m.status->next;
    const index_t position = m.read_range().first + i;
    row_input<T> row;
    space.is_wanted =
        now.active() && from.branch == 0 && detail::has_rows(m, from) &&
        detail::row_of<stat::none>(m, batch, from, i, row, device_view.answer_of(from.slot)) &&
        now.score.contains(position) && m.marks[position] == mark::masked;
    row.excluded_logits = nullptr;  // the read has them
    space.row = row;
    space.transform = step::transform_of(m);
  }
  b.sync();
  if (!space.is_wanted) {
    return;
  }
  const row_input<T>& row = space.row;
  const transform_type<Policy> transform = space.transform;
  const token_id excluded = detail::excluded_of(b, row, 0);
  warp_holder holder(b, space.lists[b.warp()]);
  for (index_t chunk = b.warp(); chunk < canonical::chunks_of(row.columns); chunk += b.warps()) {
    const index_t first = chunk * canonical::chunk_columns;
    const index_t count = math::min(canonical::chunk_columns, row.columns - first);
    chunk_logits z;
    stage(b, row, transform, excluded, first, count, z);
    const float best = detail::largest(b, z, [](float) { return true; });
    holder.push_chunk(z, best, row.first_token + first);
  }
  holder.sort();
  b.sync();
  if (b.warp() != 0) {
    return;
  }
  for (index_t w = 1; w < b.warps(); ++w) {
    holder.push_list(space.lists[w].keys);
  }
  holder.sort();
  if (b.warp_lane() == 0) {
    take_held(space.lists[0], soft->rows[i].held);
    soft->outcomes[i] = step::soft_outcome::read;
  }
}

}  // namespace unmask::device
