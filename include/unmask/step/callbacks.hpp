// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/callback.hpp>
#include <unmask/core/thread_group.hpp>
#include <unmask/step/candidate.hpp>
#include <unmask/step/sort.hpp>

/// Asks functions of the host about the candidates of a step, all of them at once, before the parts
/// that have them are called for each.
namespace UNMASK_NAMESPACE::step::callbacks {

/// True if a step of this group may have such parts: a device has none.
template <class Policy, class Group>
inline constexpr bool may_be_there = Policy::calls_back && std::is_same_v<Group, serial>;

/// Asks the functions with `wanted(stage)` about these candidates.
template <class Policy>
void ask(const slot_memory<Policy>& m,
         const std::vector<callback_candidate>& candidates,
         const auto& wanted) {
  const step_info at = info_of(*m.state);
  for_each_active_part<active_parts::calls_back_now>(m, [&](const auto& v) {
    if (wanted(v.part.stage)) {
      detail::callback_scope::innermost()->ask(v.part, candidates, at);
    }
  });
}

/// Asks rankings and filters about the candidates of a step, before they are ranked.
template <class Policy>
void ask_before_ranking(const slot_memory<Policy>& m) {
  std::vector<callback_candidate> all;
  for (index_t i = 0; i < m.status->next.score.size(); ++i) {
    if (m.roles[i] == role::candidate) {
      const auto c = candidate_at(m, i);
      all.push_back(
          detail::callback_candidate_of(c, info_of(*m.state, m.status->next, c.position)));
    }
  }
  ask(m, all, [](callback_stage s) {
    return s == callback_stage::ranking || s == callback_stage::filter;
  });
}

/// Asks commit rules about the first `count` candidates by rank, except those that a filter has
/// rejected.
template <class Policy>
void ask_rules(const slot_memory<Policy>& m, index_t count) {
  std::vector<callback_candidate> all;
  for (index_t r = 0; r < count; ++r) {
    const index_t i = key_index(m.keys[r]);
    if (m.roles[i] != role::rejected) {
      const auto c = candidate_at(m, i);
      all.push_back(
          detail::callback_candidate_of(c, info_of(*m.state, m.status->next, c.position)));
      all.back().rank = r;
      all.back().score = key_score(m.keys[r]);
    }
  }
  ask(m, all, [](callback_stage s) { return s == callback_stage::rule; });
}

/// Forgets the answers.
inline void close() {
  detail::callback_scope::innermost()->close();
}

}  // namespace unmask::step::callbacks

namespace UNMASK_NAMESPACE::detail {

/// Throws std::invalid_argument if a function of the host decides for a part: for a session that
/// cannot call it.
template <class Policy>
void check_no_callback([[maybe_unused]] const Policy& p) {
  if constexpr (Policy::calls_back) {
    visit_parts<&part_traits::calls_back>(p, [](const auto& v) {
      check_argument(false,
                     "the policy",
                     v.part.decides->name,
                     "one without functions of the host: a session on a device cannot call them. "
                     "Write the part in C++ (include/unmask/policy/README.md, Write a rule)");
    });
  }
}

}  // namespace unmask::detail
