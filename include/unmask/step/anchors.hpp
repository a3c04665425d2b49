// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/candidate.hpp>

/// Anchors: candidates that a part marks for the others around them (core/part/rank_info.hpp).
/// Empty for policies without such a part.
namespace UNMASK_NAMESPACE::step {

/// Largest distance of the parts that mark anchors; -1 without any.
template <class Policy>
[[nodiscard]] UNMASK_HD index_t anchor_radius(const slot_memory<Policy>& m) {
  index_t most = -1;
  detail::visit_parts<&part_traits::anchors>(
      *m.policy, [&](const auto& v) { most = math::max(most, v.part.anchor_radius()); });
  return most;
}

/// Marks the anchors among the scored positions, before the commit rule changes roles. Read after
/// the barrier of store_ranks().
template <class Policy>
UNMASK_HD void anchor(const auto& t, const slot_memory<Policy>& m) {
  if (anchor_radius(m) < 0) {
    return;
  }
  for (index_t i = t.lane(); i < m.status->next.score.size(); i += t.lanes()) {
    const bool counts = m.roles[i] == role::candidate || m.roles[i] == role::ranked_last;
    bool is_one = false;
    detail::visit_parts<&part_traits::anchors>(*m.policy, [&](const auto& v) {
      using part_type = typename std::remove_cvref_t<decltype(v)>::type;
      is_one = is_one || v.part.anchors(candidate_at(m, i).template as<part_type::required>());
    });
    m.anchors[i] = counts && is_one;
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
