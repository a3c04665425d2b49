// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/candidate.hpp>

namespace UNMASK_NAMESPACE::step::phase {

/// Lane 0, after the commits: the step reductions of reviewing parts, over the tokens that were
/// written.
template <class Policy>
UNMASK_HD void review(const auto& t, const slot_memory<Policy>& m) {
  if (t.lane() != 0) {
    return;  // lane 0 may already be planning, and overwrites what is read here
  }
  const range scored = m.status->next.score;
  detail::visit_parts<&part_traits::reviews>(*m.policy, [&](const auto& v) {
    using visited = std::remove_cvref_t<decltype(v)>;
    using part_type = typename visited::type;
    step_reduction_of<part_type> sum{};
    for (index_t k = 0; k < m.status->report.last_commits; ++k) {
      const index_t i = m.entries[k].position - scored.first;
      const bool is_scored = scored.contains(m.entries[k].position);
      if (is_scored && (is_accepted(m.roles[i]) || m.roles[i] == role::replaced)) {
        const candidate<Policy::required> c = candidate_at(m, i);
        const step_info at = info_of(*m.state, m.status->next, c.position);
        auto context = context_of(v, m, m.cell_of(c.position), at);
        sum.merge(v.part.review(c.template as<part_type::required>(), context));
      }
    }
    reduction_of<visited>(*m.step_reductions, v.none) = sum;
  });
}

}  // namespace unmask::step::phase
