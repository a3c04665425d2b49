// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/policy.hpp>
#include <unmask/policy/admission.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/released/bf16.hpp>
#include <unmask/policy/released/loop.hpp>

namespace UNMASK_NAMESPACE::released {

/// SGLang's loop: blocks are aligned at multiples of the block length from position 0, the first
/// holds the prompt's tail, and nothing right of the block is fed. The forward pass that finds no
/// mask ends the block. After block_length + 1 passes that decided there is one more, which decides
/// nothing, and the block stays as it is.
///
/// Source: SGLang, `srt/dllm/algorithm` (sgl-project/sglang, release 0.5.23). There, the sequences
/// of a batch wait for each other at the end of a block; a session's slots do not.
struct sglang_blocks {
  struct sequence_state {
    index_t block = 0;
    index_t passes = 0;  ///< forward passes planned for the block
    bool found_full = false;
  };
  static constexpr statistics required = stat::none;
  static constexpr bool paces = true;

  UNMASK_HD void schedule(sequence_view& q, plan& next, auto& own) const {
    sequence_state& s = own.sequence;
    const index_t most = q.block_length + 1;
    if (s.found_full || s.passes > most) {
      s = {s.block + 1, 0, false};
    }
    const range block = aligned_block(q, s.block);
    if (block.empty()) {
      next.end = ended(q);
      return;
    }
    const bool decides = s.passes < most;
    score_one_block(q, next, {decides ? block.first : block.last, block.last});
    next.feed = {0, block.last};
    next.freeze = {0, block.first};
    s.found_full = decides && q.open_in(next.score) == 0;
    ++s.passes;
  }
};
static_assert(scheduling<sglang_blocks> && pacing<sglang_blocks>);

/// SGLang's `LowConfidence`. Source: as sglang_blocks.
[[nodiscard]] constexpr auto sglang_low_confidence(float threshold) {
  return policy{by_confidence{}, confidence_above{threshold}, sglang_blocks{}};
}

/// The same on bf16 logits, whose softmax is bf16, too.
[[nodiscard]] constexpr auto sglang_low_confidence_bf16(float threshold) {
  return policy{by_confidence_bf16{}, confidence_above_bf16{threshold}, sglang_blocks{}};
}

}  // namespace unmask::released
