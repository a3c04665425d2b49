// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/composition.hpp>
#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/part.hpp>
#include <unmask/core/policy.hpp>

/// Commit rules: which candidates commit in this step. None of them has to ensure progress: each
/// forced block commits its best candidate if the rule commits none of the block.
namespace UNMASK_NAMESPACE {

/// Commits a candidate whose confidence exceeds `value` or, with `inclusive`, is `value` or more:
///
///     confidence > value        inclusive: confidence >= value
///
/// Range: [0, 1]; nothing exceeds 1. Reads stat::confidence.
/// Example: `threshold(0.9)`, confidences 0.95 0.6 0.92: commits 0.95 0.92.
/// Example: `threshold(0.75, inclusive=true)`, confidences 0.95 0.6 0.75: commits 0.95 0.75.
/// Source: C. Wu et al., Fast-dLLM (2025), section 3.3. The released code commits at the threshold
/// itself, LoPA (equation 1) and SGLang do not.
struct threshold {
  float value = 0.9F;
  bool inclusive = false;
  static constexpr statistics required = stat::confidence;

  static constexpr part_label label{"threshold",
                                    "commits every token whose probability is above value"};
  static constexpr knob<threshold> knobs[] = {{"value", &threshold::value, within(0, 1)},
                                              {"inclusive", &threshold::inclusive}};

  UNMASK_HD bool commits(const auto& c, const rank_info&) const {
    return inclusive ? c.confidence() >= value : c.confidence() > value;
  }
};
static_assert(commit_rule<threshold>);

/// Commits the `count` best-ranked candidates.
/// Range: count >= 0.
/// Example: `tokens_per_step(2)`, confidences 0.5 0.95 0.6: commits 0.95 0.6.
/// Source: S. Nie et al., Large language diffusion models (2025), a fixed number of tokens a step.
struct tokens_per_step {
  index_t count = 1;
  static constexpr statistics required = stat::none;

  static constexpr part_label label{"tokens_per_step",
                                    "commits the count best-ranked tokens in each step"};
  static constexpr knob<tokens_per_step> knobs[] = {
      {"count", &tokens_per_step::count, at_least(0)}};

  UNMASK_HD bool commits(const auto&, const rank_info& s) const { return s.rank < count; }
};
static_assert(commit_rule<tokens_per_step>);

/// Distributes a block over a fixed number of steps: of the m positions masked when the block was
/// first scored, step s commits m div steps, one more in the first m mod steps. From step `steps`
/// on it commits nothing.
///
///     rank < floor(m / steps) + (1 if s < m mod steps)        ranks from 0
///
/// With `whole_block` m is the block length, also where fewer positions are masked.
///
/// Range: steps >= 1, for each block.
/// Example: `steps_per_block(2)`, confidences 0.5 0.95 0.6: commits 0.95 0.6.
/// Example: `steps_per_block(2, whole_block=true) + semi_autoregressive(aligned=true)`, prompt x,
/// rows a60 b70 c90 d80 e70, blocks of 4: `_bc__` `abc__` `abcde`.
/// Source: S. Nie et al., Large language diffusion models (2025), appendix B (the schedule of its
/// sampler); LLaDA2.0 and SDAR divide the block length.
struct steps_per_block {
  index_t steps = 32;
  bool whole_block = false;
  static constexpr statistics required = stat::none;
  static constexpr bool counts_steps = true;

  static constexpr part_label label{
      "steps_per_block", "divides the tokens of a block evenly among the given number of steps"};
  static constexpr knob<steps_per_block> knobs[] = {{"steps", &steps_per_block::steps, at_least(1)},
                                                    {"whole_block", &steps_per_block::whole_block}};

  UNMASK_HD bool commits(const auto&, const rank_info& s, const auto& context) const {
    const index_t step = context.at.block_step;
    const index_t all =
        whole_block ? context.at.view->block_length : context.at.block_masked_at_first;
    return s.rank < (step >= steps ? 0 : all / steps + (step < all % steps ? 1 : 0));
  }
};
static_assert(commit_rule<steps_per_block>);

/// Commits all masked tokens of a block in its pass number `passes`, and in every later one:
/// another rule decides before that. Range: passes >= 1. Example: `any_of(threshold,
/// block_deadline(2))`, confidences 0.5 0.95 0.6: commits 0.95. Source: `generate` of
/// Nemotron-Labs-Diffusion in mlx-vlm, whose last pass of a block commits all.
struct block_deadline {
  index_t passes = 32;
  static constexpr statistics required = stat::none;
  static constexpr bool counts_steps = true;

  static constexpr part_label label{"block_deadline",
                                    "commits all tokens of a block in its pass number passes"};
  static constexpr knob<block_deadline> knobs[] = {
      {"passes", &block_deadline::passes, at_least(1)}};

  UNMASK_HD bool commits(const auto&, const rank_info&, const auto& context) const {
    return context.at.block_step + 1 >= passes;
  }
};
static_assert(commit_rule<block_deadline>);

/// Commits ranks n = 1, 2, ... as long as each reaches a bound that rises with n:
///
///     confidence(n) >= 1 - value / (n + 1)
///
/// The more tokens, the higher the confidence that each needs. Combines with by_confidence only.
/// With `accept_last` the last-ranked candidate commits untested if all before it do, as in the
/// released code.
/// Range: value >= 0. Reads stat::confidence.
/// Example: `factor(1)`, confidences 0.95 0.6 0.8: commits 0.95 0.8.
/// Source: C. Wu et al., Fast-dLLM (2025), section 3.3, theorem 1 and the factor-based strategy.
struct factor {
  float value = 1.0F;
  bool accept_last = false;
  static constexpr statistics required = stat::confidence;
  static constexpr bool follows_confidence = true;

  static constexpr part_label label{
      "factor", "commits rank n while its probability is at least 1 - value / (n + 1)"};
  static constexpr knob<factor> knobs[] = {{"value", &factor::value, at_least(0)},
                                           {"accept_last", &factor::accept_last}};

  UNMASK_HD bool commits(const auto& c, const rank_info& s) const {
    if (s.rank == 0 || c.confidence() >= bound(s.rank)) {
      return true;  // confidences fall and bounds rise along the ranks: a pass means all before
                    // pass
    }
    const bool last = s.rank + 1 == s.candidates;
    return accept_last && last && (s.rank == 1 || s.score_before >= bound(s.rank - 1));
  }

 private:
  [[nodiscard]] UNMASK_HD float bound(index_t rank) const {
    return 1.0F - math::divide(value, static_cast<float>(rank + 2));
  }
};
static_assert(commit_rule<factor>);

/// Commits ranks n = 1, 2, ... as long as the sum of their entropies minus the largest stays within
/// `bound` nats: an upper bound on the information lost by committing them independently.
///
///     H(1) + ... + H(n) - max(H(1), ..., H(n)) <= bound
///
/// The first rank always commits; candidates ranked last by a part (infinite entropy) never commit
/// after it.
/// Range: bound >= 0. Reads stat::entropy.
/// Example: `entropy_bound(0.1)`, confidences 0.95 0.99 0.98: commits 0.99 0.98.
/// Source: H. Ben-Hamu et al., Accelerated sampling from masked diffusion models via entropy
/// bounded unmasking (2025), section 4.
struct entropy_bound {
  float bound = 0.1F;
  static constexpr statistics required = stat::entropy;

  static constexpr part_label label{
      "entropy_bound",
      "commits ranks while the sum of their entropies, less the largest, is within bound"};
  static constexpr knob<entropy_bound> knobs[] = {
      {"bound", &entropy_bound::bound, at_least(0).in("nats")}};

  /// Entropy in nats, which rank_info::cost_before sums over the better ranks.
  UNMASK_HD float cost(const auto& c) const { return c.entropy(); }
  UNMASK_HD bool commits(const auto& c, const rank_info& s) const {
    // The sum without its largest term, computed without adding and subtracting that term.
    const float entropy = c.entropy();
    const float rest =
        entropy >= s.largest_before ? s.cost_before : s.cost_before - s.largest_before + entropy;
    return rest <= bound && (s.rank == 0 || entropy < math::infinity());
  }
};
static_assert(commit_rule<entropy_bound>);

}  // namespace unmask
