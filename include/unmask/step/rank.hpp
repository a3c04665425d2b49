// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/step/anchors.hpp>
#include <unmask/step/callbacks.hpp>
#include <unmask/step/commit_rule.hpp>
#include <unmask/step/process_logits.hpp>
#include <unmask/step/spans.hpp>

/// Determines the candidates, their order, and which of them the commit rule commits.
namespace UNMASK_NAMESPACE::step::phase {

/// True if part type P reduces over a position: every candidate, and committed ones if it declares
/// `static constexpr bool reduces_committed = true`.
template <class P>
[[nodiscard]] UNMASK_HD bool reduces_over(role is) {
  return detail::declares_reduces_committed<P> || is != role::inactive;
}

/// Calls use(visited) for each part that reduces over a position. Of parts of one type in a family
/// the first: they have one reduction, which does not depend on their arguments.
template <class Policy>
UNMASK_HD void for_each_reducing(const slot_memory<Policy>& m, role is, const auto& use) {
  for_each_active_part<active_parts::reduces_now>(m, [&](const auto& v) {
    using visited = std::remove_cvref_t<decltype(v)>;
    bool is_first = true;
    if constexpr (visited::in_family) {
      is_first = !m.policy->template part_at<visited::index>().repeats(v.value);
    }
    if (is_first && reduces_over<typename visited::type>(is)) {
      use(v);
    }
  });
}

/// Computes the step reductions over the candidates, and over committed positions that are read for
/// parts that reduce over those: each position in parallel, their sum in
/// position order by lane 0.
template <class Policy>
UNMASK_HD void reduce(const auto& t, const slot_memory<Policy>& m) {
  if constexpr (Policy::reduces) {
    const index_t size = m.status->next.score.size();
    const auto counts = [&m](index_t i) {
      return m.roles[i] == role::candidate || m.roles[i] == role::ranked_last ||
             (m.roles[i] == role::inactive && m.reads(i) && m.row(i).valid()) ||
             (m.roles[i] == role::excluded && m.row(i).valid() && is_absorbed(m, i));
    };
    for (index_t i = t.lane(); i < size; i += t.lanes()) {
      if (counts(i)) {
        const candidate<Policy::required> c = candidate_at(m, i);
        const step_info at = info_of(*m.state, m.status->next, c.position);
        for_each_reducing(m, m.roles[i], [&](const auto& v) {
          using visited = std::remove_cvref_t<decltype(v)>;
          auto context = context_of(v, m, m.cell_of(c.position), at);
          m.template reduction_at<visited>(i) =
              v.part.reduce(c.template as<visited::type::required>(), context);
        });
      }
    }
    t.sync();
    if (t.lane() == 0) {
      step_reductions_of<Policy> sum{};
      for (index_t i = 0; i < size; ++i) {
        if (counts(i)) {
          for_each_reducing(m, m.roles[i], [&](const auto& v) {
            using visited = std::remove_cvref_t<decltype(v)>;
            reduction_of<visited>(sum, v.none).merge(m.template reduction_at<visited>(i));
          });
        }
      }
      *m.step_reductions = sum;
    }
    t.sync();
  }
}

/// True if a part makes a committed position a candidate again.
template <class Policy>
[[nodiscard]] UNMASK_HD bool
remasks(const slot_memory<Policy>& m, const candidate<Policy::required>& c, const step_info& at) {
  return detail::any_part<Policy, &part_traits::remasks>([&](auto part) {
    constexpr std::size_t I = decltype(part)::value;
    auto context = context_of<I>(m, m.cell_of(c.position), at);
    const auto narrow = c.template as<Policy::template part_type<I>::required>();
    return m.policy->template part_at<I>().remasks(narrow, context);
  });
}

/// True if scored position i is committed and a candidate again.
template <class Policy>
[[nodiscard]] UNMASK_HD bool is_remasked(const slot_memory<Policy>& m, index_t i) {
  if constexpr (Policy::remasks) {
    const index_t position = m.status->next.score.first + i;
    return remasks_now(m) && m.marks[position] == mark::committed && apart<Policy>([&] {
             return m.row(i).valid() &&
                    remasks(m, candidate_at(m, i), info_of(*m.state, m.status->next, position));
           });
  } else {
    static_cast<void>(m);
    static_cast<void>(i);
    return false;
  }
}

/// Sets role and key of the candidate at scored position i.
template <class Policy>
[[gnu::always_inline]] UNMASK_HD inline void
rank_candidate(const slot_memory<Policy>& m, index_t i, const step_info& at) {
  const auto [d, part] = filter_at(m, i, at);
  m.note(i, {part});
  if (d == filter_result::excluded) {
    m.roles[i] = role::excluded;
    return;
  }
  const float s = d == filter_result::keep ? score(m, candidate_at(m, i), at) : -math::infinity();
  m.keys[i] = order_key(s, i);
  m.roles[i] = d == filter_result::keep          ? role::candidate
               : d == filter_result::ranked_last ? role::ranked_last
                                                 : role::rejected;
}

/// Sets role and key of each masked position of the scored range, and sorts the keys.
UNMASK_CALLS_HOST
template <class Policy, class Group>
UNMASK_HD void rank(const Group& t, const slot_memory<Policy>& m) {
  bool asks = false;  // functions of the host, about all candidates together
  if constexpr (callbacks::may_be_there<Policy, Group>) {
    asks = calls_back_now(m);
  }
  const range score_range = m.status->next.score;
  const index_t size = sort_size(score_range.size());
  for (index_t i = t.lane(); i < size; i += t.lanes()) {
    m.keys[i] = no_key;
    if (i >= score_range.size()) {
      continue;
    }
    const index_t position = score_range.first + i;
    m.roles[i] = role::inactive;
    m.ranks[i] = -1;
    m.note(i, {});
    const bool is_forced = forced_token(m, i) != no_token;
    if (is_forced && !m.reads(i)) {
      m.row(i) = record<Policy::required>::empty();  // its row left the pass
    }
    if ((!is_forced && !m.reads(i)) || (m.marks[position] != mark::masked && !is_remasked(m, i))) {
      continue;
    }
    const step_info at = info_of(*m.state, m.status->next, position);
    m.roles[i] = m.row(i).valid() || is_forced ? role::candidate : role::invalid;
    if (is_absorbed(m, i)) {
      m.roles[i] = role::excluded;
      continue;
    }
    if (m.roles[i] == role::candidate && !asks) {
      rank_candidate(m, i, at);
    }
  }
  if constexpr (callbacks::may_be_there<Policy, Group>) {
    if (asks) {
      apart<Policy>([&] {
        callbacks::ask_before_ranking(m);
        for (index_t i = 0; i < score_range.size(); ++i) {
          if (m.roles[i] == role::candidate) {
            rank_candidate(m, i, info_of(*m.state, m.status->next, score_range.first + i));
          }
        }
        callbacks::close();
      });
    }
  }
  sort(t, m.keys, size);
}

/// Ends the scored range where the schedule finds the end of the block, and ranks and reduces the
/// candidates that are left.
template <class Policy>
UNMASK_HD void end_block(const auto& t, const slot_memory<Policy>& m) {
  if constexpr (detail::has_part<Policy, &part_traits::ends_blocks>) {
    range& scored = m.status->next.score;
    const index_t planned = scored.last;
    t.sync();
    if (t.lane() == 0) {
      const step_info at = info_of(*m.state);
      index_t last = planned;
      detail::visit_parts<&part_traits::ends_blocks>(*m.policy, [&](const auto& v) {
        auto context = context_of(v, m, 0, at);
        last = v.part.block_end(m.state->view, m.status->next, context);
      });
      scored.last = last > scored.first ? math::min(last, planned) : planned;
    }
    t.sync();
    if (scored.last < planned) {
      rank(t, m);
      if (reduces_now(m)) {
        reduce(t, m);
      }
    }
  }
}

/// Number of candidates: keys before the first no_key.
[[nodiscard]] UNMASK_HD inline index_t candidates(const slot_arrays& m) {
  index_t low = 0;
  index_t high = m.status->next.score.size();
  while (low < high) {
    const index_t middle = (low + high) / 2;
    if (m.keys[middle] == no_key) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

/// Stores the rank of each of `count` candidates.
UNMASK_HD inline void store_ranks(const auto& t, const slot_arrays& m, index_t count) {
  for (index_t r = t.lane(); r < count; r += t.lanes()) {
    m.ranks[key_index(m.keys[r])] = r;
  }
  t.sync();
}

/// Sums the costs in rank order by lane 0; the costs of single candidates are computed by all
/// lanes.
template <class Policy>
UNMASK_HD void add_up_costs(const auto& t, const slot_memory<Policy>& m, index_t count) {
  for (index_t r = t.lane(); r < count; r += t.lanes()) {
    m.cost_before[r] = cost(m, candidate_at(m, key_index(m.keys[r])));
  }
  t.sync();
  if (t.lane() == 0) {
    float sum = 0.0F;
    float largest = -math::infinity();
    for (index_t r = 0; r < count; ++r) {
      const float c = m.cost_before[r];
      m.cost_before[r] = sum;
      m.largest_before[r] = largest;
      sum += c;
      largest = math::max(largest, c);
    }
  }
  t.sync();
}

/// Score of the candidate at rank r.
[[nodiscard]] UNMASK_HD inline float score_at(const slot_arrays& m, index_t r) {
  return key_score(m.keys[r]);
}

/// Rank information of the candidate at scored position i, which has rank r of `count`; `radius` is
/// that of the anchors.
template <class Policy>
[[nodiscard]] UNMASK_HD rank_info_of<Policy> rank_info_at(const slot_memory<Policy>& m,
                                                          index_t r,
                                                          index_t i,
                                                          index_t count,
                                                          [[maybe_unused]] index_t radius) {
  rank_info_of<Policy> s;
  s.rank = r;
  s.candidates = count;
  if constexpr (stages<Policy>::costs > 0) {
    if (costs_now(m)) {
      s.cost_before = m.cost_before[r];
      s.largest_before = m.largest_before[r];
    }
  }
  s.best_score = score_at(m, 0);
  s.score_before = r > 0 ? score_at(m, r - 1) : math::infinity();
  if constexpr (Policy::needs_spans) {
    s.span_rank = needs_spans_now(m) ? span_rank_of(m, i) : 0;
  }
  if constexpr (Policy::anchors) {
    s.anchor_distance = anchor_distance_of(m, i, radius);
  }
  return s;
}

/// Calls the commit rule for every candidate, in rank order.
UNMASK_CALLS_HOST
template <class Policy, deciding_group Group>
UNMASK_HD void apply_commit_rule(const Group& t, const slot_memory<Policy>& m, index_t count) {
  if constexpr (callbacks::may_be_there<Policy, Group>) {
    if (calls_back_now(m)) {
      apart<Policy>([&] { callbacks::ask_rules(m, count); });
    }
  }
  index_t radius = -1;
  if constexpr (Policy::anchors) {
    radius = anchors_now(m) ? anchor_radius(m) : -1;
  }
  commit_counts_of<Policy, Group> counts{t};
  for_each_in_rounds(t, count, [&](index_t r, bool has_rank) {
    using candidate_type = candidate<Policy::required>;
    const index_t i = has_rank ? key_index(m.keys[r]) : 0;
    const bool is_there = has_rank && m.roles[i] != role::rejected;
    counts.is_there = is_there;
    const candidate_type c = is_there ? candidate_at(m, i) : candidate_type{};
    const rank_info_of<Policy> s =
        is_there ? rank_info_at(m, r, i, count, radius) : rank_info_of<Policy>{};
    const step_info at = is_there ? info_of(*m.state, m.status->next, c.position) : step_info{};
    const auto [accepts, part] = commits(m, c, s, at, counts);
    if (is_there) {
      m.note(i, {part});
    }
    if (accepts) {
      m.roles[i] = role::accepted;
    }
  });
  if constexpr (callbacks::may_be_there<Policy, Group>) {
    if (calls_back_now(m)) {
      callbacks::close();
    }
  }
  t.sync();
}

}  // namespace unmask::step::phase
