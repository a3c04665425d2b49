// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/call.hpp>

/// The step, and the block of a position, as given to the parts.
namespace UNMASK_NAMESPACE::step {

/// The active block with which a position is decided: its own, or the first active one for a
/// position that an earlier block left masked, or the last one for a position that is read ahead.
[[nodiscard]] UNMASK_HD inline index_t
block_of(const sequence_view& q, const plan& now, index_t position) {
  // Usually there is only one block, and the division is the most expensive operation.
  return now.last_block - now.first_block == 1
             ? now.first_block
             : math::min(math::max(q.block_of(position), now.first_block), now.last_block - 1);
}

/// The step as given to the parts outside any block.
[[nodiscard]] UNMASK_HD inline step_info info_of(const slot_state& s) {
  step_info at;
  at.seed = s.geometry.seed;
  at.sequence = s.geometry.sequence;
  at.step = s.view.step;
  at.view = &s.view;
  return at;
}

/// The step and block of a decision about a scored position.
[[nodiscard]] UNMASK_HD inline step_info
info_of(const slot_state& s, const plan& now, index_t position) {
  step_info at = info_of(s);
  at.position = position;
  at.block_index = block_of(s.view, now, position);
  const index_t cell = at.block_index & (max_active_blocks - 1);
  at.block_step = s.view.step - s.block_step[cell];
  at.block_masked_at_first = s.block_masked_at_first[cell];
  at.block_masked = s.block_masked[cell];
  at.block_length = s.view.block(at.block_index).size();
  return at;
}

/// Lane 0: stores the step in which the blocks of a plan are first scored, and their masked
/// positions.
UNMASK_HD inline void masked_blocks(const slot_arrays& m, const plan& next) {
  slot_state& s = *m.state;
  for (index_t b = next.first_block; b < next.last_block; ++b) {
    const index_t cell = b % max_active_blocks;
    s.block_masked[cell] = s.view.masked_in(s.view.block(b));
    if (b >= s.blocks_seen) {
      s.block_step[cell] = s.view.step;
      s.block_masked_at_first[cell] = s.block_masked[cell];
      if (m.drafts != nullptr) {
        m.drafts->spared_before[cell] = m.drafts->spared;
      }
    }
  }
  s.blocks_seen = math::max(s.blocks_seen, next.last_block);
}

/// True if scored position i is an absorbed one of a canvas.
template <class Policy>
[[nodiscard]] UNMASK_HD bool is_absorbed(const slot_memory<Policy>& m, index_t i) {
  bool is = false;
  if (absorbs_now(m)) {
    const index_t position = m.status->next.score.first + i;
    detail::visit_parts<&part_traits::absorbs>(*m.policy, [&](const auto& v) {
      auto context = context_of(v, m, m.cell_of(position), info_of(*m.state));
      is = v.part.is_absorbed(context);
    });
  }
  return is;
}

/// Tells the part of a canvas that the commit rule has accepted a position.
template <class Policy>
UNMASK_HD void absorb(const slot_memory<Policy>& m, index_t position, const step_info& at) {
  detail::visit_parts<&part_traits::absorbs>(*m.policy, [&](const auto& v) {
    auto context = context_of(v, m, m.cell_of(position), at);
    v.part.absorb(context);
  });
}

}  // namespace unmask::step
