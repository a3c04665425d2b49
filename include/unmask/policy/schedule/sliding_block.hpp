// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/part.hpp>

namespace UNMASK_NAMESPACE {

/// Decodes within a window that slides over the answer: it begins at the first masked position and
/// ends so that it has a block of masked positions, whatever their distance:
///
///     [first masked, start of the answer + block length + committed tokens)
///
/// cut at the end of the answer and, unless `max_block` is 0, after max_block positions. Positions
/// that the caller gave count as committed. Commit rules that count by block (steps_per_block,
/// moving_threshold) see the whole answer as one block.
///
/// The session's window must hold the answer, or max_block positions. Range: max_block >= 0.
/// State: 4 bytes a sequence.
/// Cost: O(answer) a step.
/// Example: `tokens_per_step + sliding_block`, rows a60 b90 c80 d70, blocks of 2: decides 0-1 0-2
/// 0-3 0-3; `_b__` `_bc_` `_bcd` `abcd`.
/// Example: `tokens_per_step + sliding_block(2)`, rows a60 b90 c80 d70, blocks of 2: decides 0-1
/// 0-1 2-3 3; `_b__` `ab__` `abc_` `abcd`.
/// Source: L. Luo, X. Li, S. Wen and J. Zhang, DSB: dynamic sliding block scheduling for diffusion
/// LLMs (2026), as its released code computes the window.
struct sliding_block {
  index_t max_block = 0;

  struct sequence_state {
    index_t block_length = 0;  ///< that of the sequence; 0 before the first pass
  };

  static constexpr statistics required = stat::none;
  static constexpr part_label label{
      "sliding_block", "a window from the first masked position with a block of masked positions"};
  static constexpr knob<sliding_block> knobs[] = {
      {"max_block", &sliding_block::max_block, at_least(0)}};

  [[nodiscard]] index_t reach(const sequence_shape& g) const {
    const index_t answer = g.length - g.prompt_length;
    return max_block > 0 ? math::min(max_block, answer) : answer;
  }

  UNMASK_HD void schedule(sequence_view& q, plan& next, auto& context) const {
    const index_t answer = q.length - q.prompt_length;
    index_t& block_length = context.sequence.block_length;
    if (block_length == 0) {
      block_length = q.block_length;
      q.block_length = answer;
    }
    const index_t first = q.first_masked_in({q.prompt_length, q.length});
    index_t size = math::min(block_length, q.masked_count) + answer - q.masked_count;
    size = q.prompt_length + size - first;
    next.score = {first, first + (max_block > 0 ? math::min(size, max_block) : size)};
    next.freeze = {0, first};
    next.last_block = 1;
    next.forced = 1;
  }
};
static_assert(scheduling<sliding_block> && reaching<sliding_block>);

}  // namespace unmask
