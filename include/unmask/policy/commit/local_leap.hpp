// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/part.hpp>

namespace UNMASK_NAMESPACE {

/// Commits the anchors, candidates whose confidence is `threshold` or more, and within `radius`
/// positions of an anchor candidates whose confidence is `relaxed` or more: near a certain token
/// the model's predictions become reliable before their own confidence is high.
///
///     policy{by_confidence{}, local_leap{.threshold = 0.9F, .relaxed = 0.75F, .radius = 4}}
///
/// The distance is in positions, whatever is between, and crosses blocks if several are scored.
/// Anchors are candidates of the same step, those that a filter ranks last with confidence
/// 0; a candidate that commits near an anchor is not an anchor itself, nor is an invalid row.
/// `relaxed` = `threshold` is an inclusive threshold; a larger `relaxed` requires more confidence
/// near anchors, and of the anchors themselves.
///
/// Range: threshold and relaxed in [0, 1], radius >= 0. Reads stat::confidence.
/// State: 1 byte a position.
/// Cost: O(radius) a candidate.
/// Example: `local_leap(0.9, 0.75, 1)`, confidences 0.95 0.8 0.78: commits 0.95 0.8.
/// Source: F. Kong et al., Accelerating diffusion LLM inference via local determinism propagation
/// (2025), LocalLeap. The comparisons, and the defaults for LLaDA-8B-Instruct, are from a public
/// copy of its released code; they could not be checked against the sections of the paper. That
/// code goes by confidence and commits the best candidate if no candidate is an anchor, as every
/// forced block does here.
struct local_leap {
  float threshold = 0.9F;
  float relaxed = 0.75F;
  index_t radius = 4;

  static constexpr statistics required = stat::confidence;

  static constexpr part_label label{
      "local_leap",
      "commits tokens of at least threshold, and of at least relaxed within radius of one"};
  static constexpr knob<local_leap> knobs[] = {{"threshold", &local_leap::threshold, within(0, 1)},
                                               {"relaxed", &local_leap::relaxed, within(0, 1)},
                                               {"radius", &local_leap::radius, at_least(0)}};

  UNMASK_HD bool anchors(const auto& c) const { return c.confidence() >= threshold; }
  UNMASK_HD index_t anchor_radius() const { return radius; }

  UNMASK_HD bool commits(const auto& c, const rank_info_by_anchors& s) const {
    return c.confidence() >= (s.anchor_distance <= radius ? relaxed : threshold);
  }
};
static_assert(commit_rule<local_leap> && anchoring<local_leap>);

}  // namespace unmask
