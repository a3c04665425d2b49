// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/part.hpp>

namespace UNMASK_NAMESPACE {

/// Logical AND of two commit rules: commits a candidate that both rules commit. Both operands are
/// always evaluated for every candidate.
/// Example: `all_of(threshold(0.8), tokens_per_step(2))`, confidences 0.95 0.6 0.9: commits 0.95
/// 0.9.
template <commit_rule A, commit_rule B>
struct all_of {
  A first;
  B second;
  static constexpr statistics required = A::required | B::required;
};
template <commit_rule A, commit_rule B>
all_of(A, B) -> all_of<A, B>;

/// Logical OR of two commit rules: commits a candidate that at least one rule commits.
/// Example: `any_of(threshold(0.8), tokens_per_step(1))`, confidences 0.95 0.6 0.9: commits 0.95
/// 0.9.
template <commit_rule A, commit_rule B>
struct any_of {
  A first;
  B second;
  static constexpr statistics required = A::required | B::required;
};
template <commit_rule A, commit_rule B>
any_of(A, B) -> any_of<A, B>;

/// The number of an at_most, which is a part of its own: it holds back what it does not let
/// through. Range: count >= 0.
struct commit_limit {
  index_t count = 1;  ///< Most candidates of a step.
  static constexpr statistics required = stat::none;
  static constexpr index_t counters = 1;  ///< Counters of a step that it needs.

  static constexpr part_label label{"at_most",
                                    "lets the count best-ranked of what a rule commits through"};
  static constexpr knob<commit_limit> knobs[] = {{"count", &commit_limit::count, at_least(0)}};

  UNMASK_HD bool commits(const auto&, const rank_info&) const { return true; }
};

/// Commits at most `count` of the candidates that a rule commits in a step, the best-ranked ones.
///
///     the number of candidates of a better rank that the rule commits < count
///
/// In `all_of(rule, tokens_per_step(count))` the candidates that the rule rejects use up the count:
/// it commits those of the `count` best-ranked that the rule commits.
///
/// Counts the candidates of a step, whatever their block. Ties: as the ranking. The progress
/// guarantee is not counted: each forced block commits its best candidate if the rules commit none
/// of it.
/// Range: count >= 0. Cost: a count over the threads of a device for each at_most.
/// Example: `at_most(2, threshold(0.8))`, confidences 0.85 0.95 0.9: commits 0.95 0.9.
template <commit_rule R>
struct at_most {
  commit_limit first;  ///< The number.
  R second;            ///< The rule.
  static constexpr statistics required = R::required;

  /// At most `count` of what `rule` commits.
  constexpr at_most(index_t count, const R& rule)
      : first{count}
      , second(rule) {}
};

namespace detail {

template <class R>
struct is_composite<at_most<R>> : std::true_type {};
template <class A, class B>
struct is_composite<all_of<A, B>> : std::true_type {};
template <class A, class B>
struct is_composite<any_of<A, B>> : std::true_type {};

}  // namespace detail

/// `a && b` and `a || b` combine commit rules. For two user-defined types, outside this namespace,
/// write all_of{a, b} and any_of{a, b}: argument-dependent lookup does not find the operators
/// there.
template <commit_rule A, commit_rule B>
[[nodiscard]] constexpr all_of<A, B> operator&&(const A& a, const B& b) {
  return {a, b};
}
template <commit_rule A, commit_rule B>
[[nodiscard]] constexpr any_of<A, B> operator||(const A& a, const B& b) {
  return {a, b};
}

}  // namespace unmask
