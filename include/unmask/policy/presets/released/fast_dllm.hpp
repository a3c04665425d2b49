// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/policy.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/presets/released/loop.hpp>
#include <unmask/policy/ranking.hpp>

namespace UNMASK_NAMESPACE::released {

/// Fast-dLLM's loop: block after block, each until it is complete, but at least `least` forward
/// passes. Its cached variants have 2: the pass that opens a block fills the cache, and one more
/// always follows.
///
/// Range: least >= 1.
/// Source: C. Wu et al., Fast-dLLM (2025), `generate`, `generate_with_prefix_cache`,
/// `generate_with_dual_cache` (NVlabs/Fast-dLLM 24cc59e).
struct fast_dllm_blocks {
  index_t least = 1;
  struct sequence_state {
    index_t block = 0;
    index_t opened = 0;  ///< the step in which the block was first scored
  };
  static constexpr statistics required = stat::none;
  static constexpr bool paces = true;

  static constexpr part_label label{"fast_dllm_blocks"};
  static constexpr knob<fast_dllm_blocks> knobs[] = {
      {"least", &fast_dllm_blocks::least, at_least(1)}};

  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const sequence_shape& g) const {
    return detail::blocks_of(g) * least;
  }

  UNMASK_HD void schedule(sequence_view& q, plan& next, auto& context) const {
    sequence_state& s = context.sequence;
    if (q.step - s.opened >= least && q.masked_in(q.block(s.block)) == 0) {
      ++s.block;
      s.opened = q.step;
    }
    if (s.block >= q.blocks()) {
      next.end = ended(q);
      return;
    }
    score_one_block(q, next, q.block(s.block));
    next.freeze = {0, next.score.first};
  }
};
static_assert(scheduling<fast_dllm_blocks> && pacing<fast_dllm_blocks>);

/// Fast-dLLM's threshold, `least` forward passes a block. Source: as fast_dllm_blocks.
[[nodiscard]] constexpr auto fast_dllm_threshold(float threshold, index_t least = 1) {
  return policy{by_confidence{}, unmask::threshold{threshold, true}, fast_dllm_blocks{least}};
}

/// Fast-dLLM without a threshold: LLaDA's quota of `steps` a block, but a complete block ends at
/// once.
[[nodiscard]] constexpr auto fast_dllm_fixed(index_t steps, index_t least = 1) {
  return policy{by_confidence{}, steps_per_block{steps}, fast_dllm_blocks{least}};
}

/// Fast-dLLM's factor rule, which commits the last rank untested. Source:
/// `get_transfer_index_dynamic`, as ported in inclusionAI/dInfer fce4e32.
[[nodiscard]] constexpr auto fast_dllm_factor(float value, index_t least = 1) {
  return policy{
      by_confidence{}, factor{.value = value, .accept_last = true}, fast_dllm_blocks{least}};
}

}  // namespace unmask::released
