// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/context.hpp>

/// Scored positions as candidates, and what the filters say about them.
namespace UNMASK_NAMESPACE::step {

/// The worst possible record: the same token with confidence 0, margin 0 and infinite entropy.
template <statistics S>
[[nodiscard]] UNMASK_HD record<S> worst_record(record<S> row) {
  if constexpr (provides_v<S, stat::confidence>) {
    row.rest = math::infinity();
  }
  if constexpr (provides_v<S, stat::entropy>) {
    row.weighted = 0.0F;
  }
  if constexpr (provides_v<S, stat::second_moment>) {
    row.square = 0.0F;
  }
  if constexpr (provides_v<S, stat::truncated>) {
    static_cast<field::truncated&>(row) = {};
  }
  return row;
}

/// The token that a part names for scored position i; no_token if it names none.
template <class Policy>
[[nodiscard]] UNMASK_HD token_id forced_token(const slot_memory<Policy>& m, index_t i) {
  token_id token = no_token;
  when<active_parts::forces_now>(m, [&token, i](const auto& s) {
    const step_info at = info_of(*s.state, s.status->next, s.status->next.score.first + i);
    detail::visit_parts<&part_traits::forces>(
        *s.policy, [&](const auto& v) { token = v.part.forced_token(at); });
  });
  return token;
}

/// The candidate at scored position i, in the branch with which the step continues.
template <class Policy>
[[nodiscard]] UNMASK_HD candidate<Policy::required> candidate_at(const slot_memory<Policy>& m,
                                                                 index_t i) {
  const index_t position = m.status->next.score.first + i;
  const token_id current = m.state->tokens[position];
  if (const token_id forced = forced_token(m, i); forced != no_token) {
    auto c = candidate<Policy::required>::of(m.row(i), position, current);
    if (c.token != forced) {  // the row excludes it
      c.token = forced;
      c.logit = -math::infinity();
    }
    return c;
  }
  if constexpr (filters_any<Policy>) {
    if (m.roles[i] == role::ranked_last) {
      return candidate<Policy::required>::of(worst_record(m.row(i)), position, current);
    }
  }
  return candidate<Policy::required>::of(m.row(i), position, current);
}

/// The candidate at scored position i as a neighbour: an invalid record if there is none.
template <class Policy>
[[nodiscard]] UNMASK_HD candidate<Policy::required> neighbour_at(const slot_memory<Policy>& m,
                                                                 index_t i) {
  const range scored = m.status->next.score;
  const bool is_there =
      i >= 0 && i < scored.size() && m.marks[scored.first + i] == mark::masked && m.reads(i);
  const record<Policy::required> row = is_there ? m.row(i) : record<Policy::required>::empty();
  return candidate<Policy::required>::of(row, scored.first + i, no_token);
}

/// Result of the parts' filter() for the candidate at scored position i.
template <class Policy>
[[nodiscard]] UNMASK_HD decided<filter_result>
filter_at(const slot_memory<Policy>& m, index_t i, const step_info& at) {
  if constexpr (filters_any<Policy>) {
    if (filters_now(m)) {
      return apart<Policy>([&] {
        const neighbours<Policy::required> beside{neighbour_at(m, i - 1), neighbour_at(m, i + 1)};
        return filter_between(m, candidate_at(m, i), beside, at);
      });
    }
  }
  return {filter_result::keep, -1};
}

/// True if a candidate without neighbours would be ranked last, rejected or excluded.
template <class Policy>
[[nodiscard]] UNMASK_HD bool is_ranked_last(const slot_memory<Policy>& m,
                                            const candidate<Policy::required>& c) {
  if constexpr (filters_any<Policy>) {
    if (filters_now(m)) {
      const auto no_neighbour =
          candidate<Policy::required>::of(record<Policy::required>::empty(), -1, no_token);
      const step_info at = info_of(*m.state, m.status->next, c.position);
      return filter_between(m, c, {no_neighbour, no_neighbour}, at).result != filter_result::keep;
    }
  }
  return false;
}

}  // namespace unmask::step
