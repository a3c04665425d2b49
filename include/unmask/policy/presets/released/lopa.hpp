// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/policy.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/schedule/pipeline.hpp>

namespace UNMASK_NAMESPACE::released {

/// The pipelined blocks of D2F as released with LoPA: block_pipeline without its bound `at_once`,
/// and every lookahead branch adds its block and computes its shares separately, with its token in
/// place. So the scored range of a branch may be a block longer than the anchor's, or a block
/// shorter if it places an EOS token. A block that a branch completes is final once the branch has
/// won a round.
///
/// Range: as block_pipeline; at most max_active_blocks - 1 blocks are active at a time.
/// Source: `_update_block_completion_states` and `_generate_enhanced_speculative` of
/// `scale_dream_d2f.py` (zhijie-group/LoPA 433177a).
struct d2f_blocks {
  float add = 0.1F;        ///< Committed share of a block when the next one is added.
  float activate = 0.95F;  ///< Committed share of a block when the next one is activated.

  struct sequence_state {
    block_pipeline::sequence_state before;  ///< the last plan
    block_pipeline::sequence_state now;
  };

  static constexpr statistics required = stat::none;

  void check(const sequence_shape& g) const { check_part(blocks(), g); }
  [[nodiscard]] index_t reach(const sequence_shape& g) const {
    return block_pipeline{.at_once = max_active_blocks}.reach(g);
  }

  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const sequence_shape& g) const {
    return detail::blocks_of(g);
  }

  UNMASK_HD void schedule(sequence_view& q, plan& next, auto& context) const {
    context.sequence.before = context.sequence.now;
    pipeline_scope scope{context.sequence.now};
    blocks().schedule(q, next, scope);
  }

  UNMASK_HD void replan(sequence_view& q, plan& next, auto& context) const {
    sequence_state& s = context.sequence;
    block_pipeline::sequence_state branch = s.before;
    plan alone;
    pipeline_scope scope{branch};
    blocks().schedule(q, alone, scope);
    if (branch.last - s.now.first > max_active_blocks) {
      return;  // after blocks that were given full: scored as far as the anchor, until it has won
    }
    // The blocks that the branch's token has completed stay in front until the branch has won.
    const index_t filled = branch.first - s.now.first;
    s.now.last = branch.last;
    s.now.forced = filled < max_active_blocks ? branch.forced << filled : 0;
    next.score.last = q.block(branch.last - 1).last;
    next.query.last = next.score.last;
    next.last_block = branch.last;
    next.forced = s.now.forced;
  }

 private:
  struct pipeline_scope {
    block_pipeline::sequence_state& sequence;
  };

  // One less than a plan can hold: a branch adds its block before the complete ones are removed.
  [[nodiscard]] UNMASK_HD block_pipeline blocks() const {
    return {.add = add, .activate = activate, .at_once = max_active_blocks - 1};
  }
};
static_assert(scheduling<d2f_blocks> && replanning<d2f_blocks>);

/// D2F's decoding without lookahead. `order` decides which token an activated block commits if
/// nothing exceeds the threshold: by_confidence is its strategy `default`, by_margin its `margin`,
/// by_entropy its `neg_entropy`. Source: as d2f_blocks, `_generate_original_single_branch`.
template <ranking Ranking>
[[nodiscard]] constexpr auto
d2f(const Ranking& order, float threshold, const d2f_blocks& blocks = {}) {
  return policy{order, unmask::threshold{threshold}, blocks};
}

/// LoPA's decoding; lookahead score and order are the same, by entropy as in its scripts unless
/// `ahead` has another ranking. `ahead.branches` is its branching_factor, lowest_share its
/// branch_topp, creation_weight its selection_conf_alpha; complete_wins is set. If a round has no
/// position to try, the release computes the same sequence twice; here it is computed once. Source:
/// as d2f_blocks.
template <ranking Ranking = by_entropy>
[[nodiscard]] constexpr auto
lopa(lookahead_by<Ranking> ahead, float threshold, const d2f_blocks& blocks = {}) {
  ahead.complete_wins = true;
  return policy{ahead.order, unmask::threshold{threshold}, ahead, blocks};
}

}  // namespace unmask::released
