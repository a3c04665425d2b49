// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/part.hpp>
#include <unmask/core/policy.hpp>

namespace UNMASK_NAMESPACE {

/// Commits the best candidate of every span of consecutive candidates if its confidence exceeds
/// `low`, and every candidate whose confidence exceeds `threshold`. Tokens far apart depend less on
/// each other than neighbours do, so one of each span may commit at a lower confidence.
///
/// Both comparisons are strict; a threshold of 1 commits span winners only. A span ends at a
/// position that is not masked, whose row is invalid, or that is not scored; it may cross blocks if
/// several are scored. The best candidate of all is committed by the progress guarantee. Combines
/// with by_confidence only. Range: low, threshold in [0, 1]. Reads stat::confidence and
/// rank_info_in_span::span_rank. Ties: one winner a span, the lower position. Cost: O(length of the
/// span) a candidate, 4 bytes a position. Example: `hierarchical(0.6, 0.85)`, confidences 0.7 0.88
/// 0.92 0.8: commits 0.88 0.92. Source: inclusionAI, dInfer (2025), hierarchical decoding; released
/// as `HierarchyDecoder`, which commits all equally good winners of a span.
struct hierarchical {
  float low = 0.4F;
  float threshold = 0.9F;
  static constexpr statistics required = stat::confidence;
  static constexpr bool follows_confidence = true;
  static constexpr bool needs_spans = true;

  static constexpr part_label label{
      "hierarchical",
      "commits tokens above threshold, and the best of each span of masked positions above low"};
  static constexpr knob<hierarchical> knobs[] = {
      {"low", &hierarchical::low, within(0, 1)},
      {"threshold", &hierarchical::threshold, within(0, 1)}};

  UNMASK_HD bool commits(const auto& c, const rank_info_in_span& s) const {
    const float confidence = c.confidence();
    return (s.span_rank == 0 && confidence > low) || confidence > threshold;
  }
};
static_assert(commit_rule<hierarchical> && span_aware<hierarchical>);

}  // namespace unmask
