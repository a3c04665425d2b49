// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/commit.hpp>

namespace UNMASK_NAMESPACE::step {

/// True if the part that remasks the least certain tokens has more to do though no position is
/// masked.
template <class Policy>
[[nodiscard]] UNMASK_HD bool goes_on([[maybe_unused]] const slot_memory<Policy>& m,
                                     [[maybe_unused]] const step_info& at) {
  bool more = false;
  detail::visit_parts<&part_traits::goes_on>(*m.policy, [&](const auto& v) {
    auto context = context_of(v, m, 0, at);
    more = v.part.goes_on(m.state->view, context);
  });
  return more;
}

namespace phase {

/// Key by which scored position i is remasked: the least certain first. no_key for one that is
/// neither committed nor about to be.
template <class Policy>
[[nodiscard]] UNMASK_HD std::uint64_t remask_key(const slot_memory<Policy>& m, index_t i) {
  const index_t position = m.status->next.score.first + i;
  const bool is_committed = m.marks[position] == mark::committed;
  if (!is_accepted(m.roles[i]) && (m.roles[i] != role::inactive || !is_committed || !m.reads(i))) {
    return no_key;
  }
  step_info at = info_of(*m.state, m.status->next, position);
  at.current_probability = is_committed ? current_probability(m, m.row(i), i) : 0.0F;
  float score = 0.0F;
  detail::visit_parts<&part_traits::remasks_least>(*m.policy, [&](const auto& v) {
    using part_type = typename std::remove_cvref_t<decltype(v)>::type;
    auto context = context_of(v, m, m.cell_of(position), at);
    score = v.part.remask_score(candidate_at(m, i).template as<part_type::required>(), context);
  });
  return math::is_nan(score) ? no_key : order_key(-score, i);
}

/// Masks the least certain of the committed positions and of those about to be
/// (core/part/rewriting.hpp).
template <class Policy>
UNMASK_HD void remask_least(const deciding_group auto& t, const slot_memory<Policy>& m) {
  slot_state& s = *m.state;
  const range scored = m.status->next.score;
  step_info at = info_of(s, m.status->next, scored.first);
  std::int64_t charged = s.remasked;
  for_each_in_rounds(t, scored.size(), [&](index_t i, bool is_there) {
    at.commits += t.count(is_there && is_accepted(m.roles[i])).all;
  });
  charged -= may_wait(m) ? at.commits : math::max(at.commits - 1, index_t{0});
  if (t.lane() == 0) {
    s.remasked = charged;
  }
  const std::int64_t most = s.bounds.remasked - charged;
  std::int64_t wanted = 0;
  index_t remasking_part = -1;
  detail::visit_parts<&part_traits::remasks_least>(*m.policy, [&](const auto& v) {
    auto context = context_of(v, m, m.cell_of(scored.first), at);
    wanted = v.part.remask_count(context);
    remasking_part = v.text_index;
  });
  if (wanted <= 0 || most <= 0) {
    return;
  }
  const index_t size = sort_size(scored.size());
  for (index_t i = t.lane(); i < size; i += t.lanes()) {
    m.keys[i] = i < scored.size() ? remask_key(m, i) : no_key;
  }
  sort(t, m.keys, size);
  const std::int64_t found = candidates(m);
  const std::int64_t masked =
      math::min(static_cast<index_t>(wanted < most ? wanted : most), static_cast<index_t>(found));
  index_t forced = 0;
  for_each_in_rounds(t, static_cast<index_t>(masked), [&](index_t r, bool is_there) {
    const index_t i = is_there ? key_index(m.keys[r]) : 0;
    forced += t.count(is_there && m.roles[i] == role::forced && writes(m, i)).all;
    if (is_there) {
      const bool was_committed = m.marks[scored.first + i] == mark::committed;
      m.roles[i] = was_committed ? role::remasked : role::candidate;
      m.note(i, {was_committed || m.row(i).valid() ? remasking_part : -1});
    }
  });
  if (t.lane() == 0) {
    m.status->report.forced -= forced;
    s.remasked = charged + masked;
  }
  t.sync();
}

}  // namespace phase

}  // namespace unmask::step
