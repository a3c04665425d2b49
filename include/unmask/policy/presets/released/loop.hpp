// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/schedule.hpp>

/// Helpers shared by the loops of released code.
namespace UNMASK_NAMESPACE::released {

/// Ending of a sequence whose schedule has no block left: complete, or out of steps.
[[nodiscard]] UNMASK_HD inline ending ended(const sequence_view& q) {
  return q.masked_count == 0 ? ending::complete : ending::max_steps;
}

/// Block b of blocks aligned at multiples of the block length, counted from position 0: the first
/// block contains the end of the prompt, the last is cut at the end of the sequence.
[[nodiscard]] UNMASK_HD inline range aligned_block(const sequence_view& q, index_t b) {
  const index_t first = (q.prompt_length / q.block_length + b) * q.block_length;
  return {first, math::min(first + q.block_length, q.length)};
}

/// Plans a decision of every masked position of `score`, which ends where the active block ends.
UNMASK_HD inline void score_one_block(const sequence_view& q, plan& next, range score) {
  next.score = {math::max(score.first, q.prompt_length), score.last};
  next.first_block = q.block_of(score.last - 1);
  next.last_block = next.first_block + 1;
  next.forced = 1;
}

}  // namespace unmask::released
