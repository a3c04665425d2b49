// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/thread_group.hpp>
#include <unmask/step/call.hpp>

/// Evaluates the commit rule of a policy, an expression of parts, for the candidates in rank order.
namespace UNMASK_NAMESPACE::step {

namespace call {

template <class Part>
[[nodiscard]] UNMASK_HD bool
commits(const Part& p, const auto& c, const auto& of_all, auto& context) {
  const detail::rank_info_for<Part>& s = of_all;
  if constexpr (requires { p.commits(c, s, context); }) {
    return p.commits(c, s, context);
  } else {
    return p.commits(c, s);
  }
}

}  // namespace call

/// Rank information of a candidate that the policy's commit rule needs.
template <class Policy>
using rank_info_of = std::conditional_t<Policy::anchors, rank_info_by_anchors, rank_info_in_span>;

namespace detail_commit_rule {

// Number of counters that a part needs, for each at_most one.
template <class P>
inline constexpr index_t counters_of = 0;
template <class P>
  requires requires { typename std::integral_constant<index_t, P::counters>; }
inline constexpr index_t counters_of<P> = P::counters;

// Number of counters of the parts before part I.
template <class Policy, std::size_t I>
inline constexpr index_t counters_before =
    counters_before<Policy, I - 1> + counters_of<typename Policy::template part_type<I - 1>>;
template <class Policy>
inline constexpr index_t counters_before<Policy, 0> = 0;

}  // namespace detail_commit_rule

/// The counters of a step, which at_most needs: how many candidates each rule has committed so far.
/// The lanes evaluate the commit rule for neighbouring ranks at a time, in rising order, and all of
/// them take part.
template <deciding_group Group, index_t Size>
struct commit_counts {
  const Group& group;     ///< The lanes.
  bool is_there = false;  ///< Whether this lane has a candidate; if not it counts none.
  index_t admitted[Size > 0 ? Size : 1] = {};  ///< By counter: candidates so far.

  /// True if the rule commits this lane's candidate (`wants`) and less than `most` before it.
  [[nodiscard]] UNMASK_HD bool admit(index_t counter, index_t most, bool wants) {
    const lane_count now = group.count(wants);
    const bool is_in = wants && admitted[counter] + now.before < most;
    admitted[counter] += now.all;
    return is_in;
  }
};
/// The counters of a policy.
template <class Policy, class Group>
using commit_counts_of =
    commit_counts<Group, detail_commit_rule::counters_before<Policy, Policy::part_total>>;

namespace detail_commit_rule {

// Evaluates the commit rule expression E whose first part has index I.
template <std::size_t I, class E>
struct expression {
  template <class Policy>
  [[nodiscard]] UNMASK_HD static decided<bool> commits(const slot_memory<Policy>& m,
                                                       const candidate<Policy::required>& c,
                                                       const rank_info_of<Policy>& s,
                                                       const step_info& at,
                                                       auto& counts) {
    std::uint32_t results = 0;
    if (counts.is_there) {
      detail::visit_part<I, &part_traits::commits>(*m.policy, [&](const auto& v) {
        using part_type = typename std::remove_cvref_t<decltype(v)>::type;
        auto context = context_of(v, m, m.cell_of(c.position), at);
        const auto narrow = c.template as<part_type::required>();
        results |= (call::commits(v.part, narrow, s, context) ? 1U : 0U)
                   << static_cast<std::uint32_t>(v.value);
      });
    }
    const E& part = m.policy->template part_at<I>();
    if constexpr (requires { part.decide(results, counts, 0, true); }) {
      return part.decide(results, counts, counters_before<Policy, I>, m.reasons != nullptr);
    } else {
      return {results != 0, text_index_of<I>(*m.policy)};
    }
  }
};

template <std::size_t I, class A, class B>
struct expression<I, all_of<A, B>> {
  template <class Policy>
  [[nodiscard]] UNMASK_HD static decided<bool> commits(const slot_memory<Policy>& m,
                                                       const candidate<Policy::required>& c,
                                                       const rank_info_of<Policy>& s,
                                                       const step_info& at,
                                                       auto& counts) {
    const decided<bool> first = expression<I, A>::commits(m, c, s, at, counts);
    const decided<bool> second =
        expression<I + detail::part_count<A>, B>::commits(m, c, s, at, counts);
    return {first.result && second.result, first.result ? second.part : first.part};
  }
};

template <std::size_t I, class A, class B>
struct expression<I, any_of<A, B>> {
  template <class Policy>
  [[nodiscard]] UNMASK_HD static decided<bool> commits(const slot_memory<Policy>& m,
                                                       const candidate<Policy::required>& c,
                                                       const rank_info_of<Policy>& s,
                                                       const step_info& at,
                                                       auto& counts) {
    const decided<bool> first = expression<I, A>::commits(m, c, s, at, counts);
    const decided<bool> second =
        expression<I + detail::part_count<A>, B>::commits(m, c, s, at, counts);
    return {first.result || second.result, first.result ? first.part : second.part};
  }
};

template <std::size_t I, class R>
struct expression<I, at_most<R>> {
  template <class Policy>
  [[nodiscard]] UNMASK_HD static decided<bool> commits(const slot_memory<Policy>& m,
                                                       const candidate<Policy::required>& c,
                                                       const rank_info_of<Policy>& s,
                                                       const step_info& at,
                                                       auto& counts) {
    const decided<bool> rule = expression<I + 1, R>::commits(m, c, s, at, counts);
    const commit_limit& limit = m.policy->template part_at<I>();
    const bool is_in = counts.admit(counters_before<Policy, I>, limit.count, rule.result);
    return {is_in, is_in == rule.result ? rule.part : text_index_of<I>(*m.policy)};
  }
};

// Finds the commit rule among the top-level parts, and the index of its first part.
template <std::size_t I, class... Parts>
struct find;
template <std::size_t I, class Head, class... Tail>
struct find<I, Head, Tail...> : std::conditional_t<commit_rule<Head>,
                                                   std::type_identity<expression<I, Head>>,
                                                   find<I + detail::part_count<Head>, Tail...>> {};
template <std::size_t I>
struct find<I> {};

// A policy whose commit rule is one part.
template <class Policy>
struct of {
  static constexpr std::size_t index = detail::part_that<Policy, &part_traits::commits>;
  using type = expression<index, typename Policy::template part_type<index>>;
};
template <class... Parts>
struct of<policy<Parts...>> : find<0, Parts...> {};
template <class Policy>
struct of<const Policy> : of<Policy> {};

}  // namespace detail_commit_rule

/// Whether the policy's commit rule commits a candidate with that rank information, and which part
/// decides it (candidate_entry::part). Every lane calls it; one without a candidate
/// (commit_counts::is_there) with any of the step.
template <class Policy>
[[nodiscard]] UNMASK_HD decided<bool> commits(const slot_memory<Policy>& m,
                                              const candidate<Policy::required>& c,
                                              const rank_info_of<Policy>& s,
                                              const step_info& at,
                                              auto& counts) {
  return detail_commit_rule::of<Policy>::type::commits(m, c, s, at, counts);
}

}  // namespace unmask::step
