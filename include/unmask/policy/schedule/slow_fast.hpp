// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/part.hpp>

namespace UNMASK_NAMESPACE {

/// Alternates two phases in a block: exploring finds how far the model is confident, filling
/// decodes that stretch; then it explores from its end. A schedule; the published rule is
/// `policy{by_confidence{}, threshold{0.9F, true}, slow_fast{}}`.
///
/// Exploring: `exploration` forward passes over everything from the end of the last stretch to the
/// end of the block. Each estimates the end of the stretch: after the farthest candidate of
/// confidence `promising` or more, or one position if there is none. Once the standard deviation
/// (of the population) of two consecutive estimates is below `spread` positions the later one is
/// used; without that, their mean, rounded down. Filling: passes over the stretch until no position
/// of it is masked; from the second pass on, positions after it do not enter. A complete block
/// ends at once, also while exploring.
///
/// Range: exploration >= 1; promising in [0, 1]; spread >= 0. Reads stat::confidence.
/// State: 24 bytes a sequence.
/// Cost: O(block length) a step.
/// Example: `threshold(0.9) + slow_fast(2)`, rows a70 b95 c40d30e30 d25e25f25 e25f25g25: decides
/// 0-4 0-4 0-2 3-4 3-4; `_b___` `ab___` `abc__` `abcd_` `abcde`.
/// Source: Q. Wei et al., Accelerating diffusion large language models with SlowFast sampling: the
/// three golden principles (2025), and its released code, which continues to explore in a complete
/// block. Its commits, all confident candidates if there are two and the best one otherwise, equal
/// the commits of an inclusive threshold with the progress guarantee.
struct slow_fast {
  index_t exploration = 6;
  float promising = 0.3F;
  float spread = 1.0F;

  struct sequence_state {
    index_t block = 0;
    index_t begin = 0;    ///< offset in the block at which the stretch begins
    index_t end = 0;      ///< offset at which it ends; 0 before the first estimate
    index_t guess = 0;    ///< the last estimate of `end`
    index_t passes = 0;   ///< forward passes planned for the stretch
    bool stands = false;  ///< `end` is final
  };

  struct step_reduction {
    index_t farthest = -1;  ///< position of the farthest confident candidate, -1 if none

    UNMASK_HD void merge(const step_reduction& other) {
      farthest = math::max(farthest, other.farthest);
    }
  };

  static constexpr statistics required = stat::confidence;
  static constexpr bool counts_steps = true;

  static constexpr part_label label{
      "slow_fast", "explores how far the model is confident, then decodes that stretch"};
  static constexpr knob<slow_fast> knobs[] = {{"exploration", &slow_fast::exploration, at_least(1)},
                                              {"promising", &slow_fast::promising, within(0, 1)},
                                              {"spread", &slow_fast::spread, at_least(0)}};

  UNMASK_HD step_reduction reduce(const auto& c, auto&) const {
    return {c.confidence() >= promising ? c.position : -1};
  }

  UNMASK_HD void schedule(sequence_view& q, plan& next, auto& context) const {
    sequence_state& s = context.sequence;
    if (s.passes > 0 && s.passes <= exploration && !s.stands) {
      guess(context.step_reduction, q.block(s.block), s);
    }
    while (s.block + 1 < q.blocks() && q.masked_in(q.block(s.block)) == 0) {
      s = {s.block + 1, 0, 0, 0, 0, false};
    }
    const range block = q.block(s.block);
    if (s.passes >= exploration && q.masked_in({block.first + s.begin, block.first + s.end}) == 0) {
      s = {s.block, s.end, 0, 0, 0, false};
    }
    const bool explores = s.passes < exploration;
    next.score = {block.first + s.begin, explores ? block.last : block.first + s.end};
    if (s.passes > exploration) {
      next.query = {0, next.score.last};
    }
    next.freeze = {0, block.first};
    next.first_block = s.block;
    next.last_block = s.block + 1;
    next.forced = 1;
    ++s.passes;
  }

 private:
  // Takes the estimate of the pass that was just decided.
  UNMASK_HD void guess(const step_reduction& seen, const range& block, sequence_state& s) const {
    const index_t ahead = seen.farthest < 0 ? s.begin + 1 : seen.farthest - block.first + 1;
    const index_t now = math::min(ahead, block.size());
    const index_t apart = now < s.guess ? s.guess - now : now - s.guess;
    // The standard deviation of two numbers is half their distance.
    s.stands = s.guess > 0 && 0.5F * static_cast<float>(apart) < spread;
    s.end = s.stands || s.guess == 0 ? now : (now + s.guess) / 2;
    s.guess = now;
  }
};
static_assert(step_reducing<slow_fast> && scheduling<slow_fast>);

}  // namespace unmask
