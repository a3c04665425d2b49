// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/candidate.hpp>

/// Anchors: candidates that a part marks for the others around them (core/part/rank_info.hpp).
/// Empty for policies without such a part.
namespace UNMASK_NAMESPACE::step {

/// The part that defines the anchors.
template <class Policy>
[[nodiscard]] UNMASK_HD const auto& anchoring_of(const slot_memory<Policy>& m) {
  return m.policy->template part_at<detail::part_that<Policy, &part_traits::anchors>>();
}

/// Marks the anchors among the scored positions, before the commit rule changes roles. Read after
/// the barrier of store_ranks().
template <class Policy>
UNMASK_HD void anchor(const auto& t, const slot_memory<Policy>& m) {
  const auto& part = anchoring_of(m);
  if (part.anchor_radius() < 0) {
    return;
  }
  using part_type = std::remove_cvref_t<decltype(part)>;
  for (index_t i = t.lane(); i < m.status->next.score.size(); i += t.lanes()) {
    const bool counts = m.roles[i] == role::candidate || m.roles[i] == role::ranked_last;
    m.anchors[i] = counts && part.anchors(candidate_at(m, i).template as<part_type::required>());
  }
}

/// Distance of scored position i from the nearest anchor within `radius`, or no_anchor. O(radius).
template <class Policy>
[[nodiscard]] UNMASK_HD index_t anchor_distance_of(const slot_memory<Policy>& m,
                                                   index_t i,
                                                   index_t radius) {
  const index_t size = m.status->next.score.size();
  const index_t farthest = math::min(radius, size - 1);
  for (index_t d = 0; d <= farthest; ++d) {
    if ((i >= d && m.anchors[i - d]) || (i + d < size && m.anchors[i + d])) {
      return d;
    }
  }
  return no_anchor;
}

}  // namespace unmask::step
