// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/policy.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/presets/released/loop.hpp>
#include <unmask/policy/ranking.hpp>

namespace UNMASK_NAMESPACE::released {

/// LLaDA's loop: `steps` forward passes for every block, even after the block is complete.
/// Candidates are all masked positions left of the block's end, so those that an earlier block left
/// masked are candidates again; the sequence may end with some. There are no forced commits: only
/// the quota commits.
///
/// Range: steps >= 1, for each block; the window must have room for the answer.
/// Source: S. Nie et al., LLaDA, `generate` (ML-GSAI/LLaDA b7e6c35).
struct llada_blocks {
  index_t steps = 32;
  static constexpr statistics required = stat::none;
  static constexpr bool paces = true;

  static constexpr part_label label{"llada_blocks"};
  static constexpr knob<llada_blocks> knobs[] = {{"steps", &llada_blocks::steps, at_least(1)}};

  [[nodiscard]] index_t reach(const sequence_shape& g) const { return g.length - g.prompt_length; }

  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const sequence_shape& g) const {
    return detail::blocks_of(g) * steps;
  }

  UNMASK_HD void schedule(sequence_view& q, plan& next, auto&) const {
    const index_t b = q.step / steps;
    if (b >= q.blocks()) {
      next.end = ended(q);
      return;
    }
    const index_t last = q.block(b).last;
    score_one_block(q, next, {math::min(q.committed_prefix, last), last});
    next.forced = 0;
  }
};
static_assert(scheduling<llada_blocks> && pacing<llada_blocks>);

/// LLaDA's `low_confidence`, `steps` forward passes for each block. `Ranking`: by_confidence_bf16
/// on bf16 logits. Source: as llada_blocks.
template <ranking Ranking = by_confidence>
[[nodiscard]] constexpr auto llada_low_confidence(index_t steps, const Ranking& order = {}) {
  return policy{order, steps_per_block{steps}, llada_blocks{steps}};
}

}  // namespace unmask::released
