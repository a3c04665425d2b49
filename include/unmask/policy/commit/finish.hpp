// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/part.hpp>

namespace UNMASK_NAMESPACE {

/// Commits a candidate whose confidence exceeds `high`, or every candidate at once when the product
/// of the confidences of all candidates of the step reaches `low`:
///
///     confidence > high   or   ln c(1) + ... + ln c(n) >= ln low
///
/// The last pass of a block costs the same for one position as for all of them. The product is the
/// probability that all are right if they were independent, so the rule is for answers whose last
/// positions have one right value each; where several answers are right, low products are often of
/// tokens that do not belong together.
///
/// Range: high and low in [0, 1]. With low = 0 everything commits in the first pass; with low = 1
/// only certain tokens finish. Reads stat::confidence.
/// Ties: both comparisons are exact; the sum is taken in the order of the positions, the same bits
/// everywhere. A candidate that a filter ranks last has confidence 0, and nothing finishes then
/// unless low is 0. A row of NaN is not a candidate: it neither counts nor commits.
/// Cost: O(candidates) a step, in one thread.
/// Example: `finish(0.97, 0.5)`, rows a90 b80 c70: `abc`.
/// Example: `finish(0.97, 0.51)`, rows a90 b80 c70: `a__` `abc`.
/// Source: this library's.
struct finish {
  float high = 0.97F;
  float low = 0.5F;

  struct step_reduction {
    float sum = 0.0F;  ///< of the logarithms of the confidences
    UNMASK_HD void merge(const step_reduction& other) { sum += other.sum; }
  };

  static constexpr statistics required = stat::confidence;
  static constexpr part_label label{
      "finish", "commits tokens above high, or all when the product of their probabilities is low"};
  static constexpr knob<finish> knobs[] = {{"high", &finish::high, within(0, 1)},
                                           {"low", &finish::low, within(0, 1)}};

  UNMASK_HD step_reduction reduce(const auto& c, const auto&) const {
    return {c.confidence() > 0.0F ? c.log_probability() : -math::infinity()};
  }

  UNMASK_HD bool commits(const auto& c, const rank_info&, const auto& context) const {
    const float least = low < 1.2e-38F ? -math::infinity() : math::log(low);
    return c.confidence() > high || context.step_reduction.sum >= least;
  }
};
static_assert(commit_rule<finish> && step_reducing<finish>);

}  // namespace unmask
