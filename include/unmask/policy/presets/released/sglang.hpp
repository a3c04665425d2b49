// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/policy.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/presets/released/bf16.hpp>
#include <unmask/policy/presets/released/loop.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/remask/edit_committed.hpp>

namespace UNMASK_NAMESPACE::released {

/// SGLang's loop: blocks are aligned at multiples of the block length from position 0, the first
/// contains the end of the prompt, and nothing right of the block is run. A forward pass over a
/// block without masks ends the block. After block_length + 1 passes that decided there is one
/// more, which decides nothing, and the block stays as it is.
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

  /// The first block may begin left of the answer, the last may be short.
  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const sequence_shape& g) const {
    return (detail::blocks_of(g) + 1) * 2 + std::int64_t{2} * g.block_length;
  }

  UNMASK_HD void schedule(sequence_view& q, plan& next, auto& context) const {
    sequence_state& s = context.sequence;
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
    next.query = {0, block.last};
    next.freeze = {0, block.first};
    s.found_full = decides && q.masked_in(next.score) == 0;
    ++s.passes;
  }
};
static_assert(scheduling<sglang_blocks> && pacing<sglang_blocks>);

/// SGLang's `LowConfidence`. Source: as sglang_blocks.
[[nodiscard]] constexpr auto sglang_low_confidence(float threshold) {
  return policy{by_confidence{}, unmask::threshold{threshold}, sglang_blocks{}};
}

/// sglang_low_confidence on bf16 logits with a softmax in bf16.
[[nodiscard]] constexpr auto sglang_low_confidence_bf16(float threshold) {
  return policy{by_confidence_bf16{}, threshold_bf16{threshold}, sglang_blocks{}};
}

/// The loop of SGLang's `JointThreshold`: as sglang_blocks, but a complete block continues as long
/// as its tokens are edited. It ends with the forward pass over the complete block that changes
/// nothing; pass `most_edits` + 1 over the complete block decides nothing and also ends it. After
/// block_length + most_edits + 1 passes that decided there is one more, which decides nothing, and
/// the block stays as it is.
///
/// Range: most_edits >= 0, its `max_post_edit_steps`.
/// Source: as sglang_blocks.
struct sglang_edited_blocks {
  index_t most_edits = 16;

  struct sequence_state {
    index_t block = 0;
    index_t passes = 0;  ///< forward passes planned for the block
    index_t full = 0;    ///< of those, on the full block
    bool decides = false;
  };
  static constexpr statistics required = stat::none;
  static constexpr bool paces = true;

  static constexpr part_label label{"sglang_edited_blocks"};
  static constexpr knob<sglang_edited_blocks> knobs[] = {
      {"most_edits", &sglang_edited_blocks::most_edits, at_least(0)}};

  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const sequence_shape& g) const {
    return (detail::blocks_of(g) + 1) * (std::int64_t{most_edits} + 2) +
           std::int64_t{2} * g.block_length;
  }

  UNMASK_HD void schedule(sequence_view& q, plan& next, auto& context) const {
    sequence_state& s = context.sequence;
    const index_t most = q.block_length + math::min(most_edits, max_length) + 1;
    const bool found_done = s.full > 0 && (s.full > most_edits || (s.decides && q.changed == 0));
    if (found_done || s.passes > most) {
      s = {s.block + 1, 0, 0, false};
    }
    const range block = aligned_block(q, s.block);
    if (block.empty()) {
      next.end = ended(q);
      return;
    }
    if (s.passes < most &&
        q.masked_in({math::max(block.first, q.prompt_length), block.last}) == 0) {
      ++s.full;
    }
    s.decides = s.passes < most && s.full <= most_edits;
    score_one_block(q, next, {s.decides ? block.first : block.last, block.last});
    next.query = {0, block.last};
    next.freeze = {0, block.first};
    ++s.passes;
  }
};
static_assert(scheduling<sglang_edited_blocks> && pacing<sglang_edited_blocks>);

/// SGLang's `JointThreshold` with penalty_lambda = 0. Source: as sglang_blocks.
[[nodiscard]] constexpr auto
sglang_joint_threshold(float threshold, float edit_threshold, index_t most_edits = 16) {
  return policy{by_confidence{},
                unmask::threshold{threshold},
                edit_committed{edit_threshold},
                sglang_edited_blocks{most_edits}};
}

}  // namespace unmask::released
