// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/part.hpp>

namespace UNMASK_NAMESPACE {

/// Commits ranks n = 1, 2, ... as long as the lower Fréchet bound on the probability that the n
/// tokens are right together, less the doubt about the n-th, exceeds `margin`:
///
///     c(1) + ... + c(n) - (n - 1) - (1 - c(n)) > margin
///
/// The left side falls with n. The first rank always commits. With `margin` = 1 - f the rule
/// commits all that `factor(f)` commits, and more where the better ranks are surer than the n-th.
/// Combines with rankings by confidence only.
///
/// Range: margin is finite; with 1 or more one token commits, with a low negative number all do.
/// Reads stat::confidence.
/// Ties: equal confidences commit in the order of their positions.
/// Cost: O(candidates) a step, in one thread.
/// Example: `frechet(0.25)`, confidences 0.95 0.6 0.8: commits 0.95 0.8.
/// Source: S. Kasa, J. Dai, S. Negi and J. Li, Fast-dLLM++: Fréchet profile decoding for faster
/// diffusion LLM inference (2026), as its released code computes it.
struct frechet {
  float margin = 0.0F;
  static constexpr statistics required = stat::confidence;
  static constexpr bool follows_confidence = true;

  static constexpr part_label label{
      "frechet", "commits ranks while a bound on their joint probability exceeds margin"};
  static constexpr knob<frechet> knobs[] = {{"margin", &frechet::margin, any_finite()}};

  /// Doubt about a candidate, which rank_info::cost_before sums over the better ranks.
  UNMASK_HD float cost(const auto& c) const { return 1.0F - c.confidence(); }
  UNMASK_HD bool commits(const auto& c, const rank_info& s) const {
    const float doubt = cost(c);
    return s.rank == 0 || s.cost_before + doubt + doubt < 1.0F - margin;
  }
};
static_assert(commit_rule<frechet>);

}  // namespace unmask
