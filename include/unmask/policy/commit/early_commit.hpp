// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>

namespace UNMASK_NAMESPACE {

/// Commits every candidate at once when the mean gap between the best and the second logit, over
/// the step's candidates, reaches a threshold that decreases during the decode. Until then it
/// commits nothing, so combine it with a rule for the steps before:
///
///     policy{by_confidence{}, steps_per_block{64} || early_commit{.steps = 64}}
///
/// The threshold is `early` in the first 33 % of `steps` forward passes of the sequence, `middle`
/// up to 67 %, and `late` from there on. The mean includes candidates that a filter ranks last; a
/// row with one finite logit has an infinite gap. Range: steps >= 1, thresholds >= 0, in units of
/// the logits. Reads stat::margin. Cost: O(1) a candidate, no state.
///
/// Example: `any_of(tokens_per_step, early_commit(early=2))`, rows a90b10 b60c40 c60d40, then
/// a90b10 b95c5 c95d5: `a__` `abc`.
/// Source: P. Li et al., Diffusion language models know the answer before decoding (2025), early
/// commit decoding ("Prophet"), with the phases, the comparison and the defaults of its released
/// code. The release takes the mean over the positions of the final answer, which the caller has to
/// know; this part takes it over all candidates: score the whole answer with single_block{}.
struct early_commit {
  index_t steps = 64;
  float early = 7.5F;
  float middle = 5.0F;
  float late = 2.5F;

  struct step_reduction {
    float gap = 0.0F;  ///< sum of the gaps
    index_t candidates = 0;
    UNMASK_HD void merge(const step_reduction& other) {
      gap += other.gap;
      candidates += other.candidates;
    }
  };

  static constexpr statistics required = stat::margin;
  static constexpr bool counts_steps = true;
  static constexpr part_label label{
      "early_commit",
      "commits all candidates when the mean gap between their two best logits is wide"};
  static constexpr knob<early_commit> knobs[] = {{"steps", &early_commit::steps, at_least(1)},
                                                 {"early", &early_commit::early, at_least(0)},
                                                 {"middle", &early_commit::middle, at_least(0)},
                                                 {"late", &early_commit::late, at_least(0)}};

  /// Mean gap required in step number `step`.
  [[nodiscard]] UNMASK_HD float threshold(index_t step) const {
    const std::int64_t hundredths = std::int64_t{step} * 100;
    return hundredths < std::int64_t{steps} * 33   ? early
           : hundredths < std::int64_t{steps} * 67 ? middle
                                                   : late;
  }

  UNMASK_HD step_reduction reduce(const auto& c, const auto&) const {
    return {c.best - c.second, 1};
  }

  UNMASK_HD bool commits(const auto&, const rank_info&, const auto& context) const {
    return context.step_reduction.gap >=
           threshold(context.at.step) * static_cast<float>(context.step_reduction.candidates);
  }
};
static_assert(commit_rule<early_commit> && step_reducing<early_commit>);

}  // namespace unmask
