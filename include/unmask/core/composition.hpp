// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part.hpp>

namespace UNMASK_NAMESPACE {

/// Logical AND of two commit rules: commits a candidate that both rules commit. Both operands are
/// evaluated for every candidate; there is no short circuit.
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

namespace detail {

template <class A, class B>
struct is_composite<all_of<A, B>> : std::true_type {};
template <class A, class B>
struct is_composite<any_of<A, B>> : std::true_type {};

}  // namespace detail

/// `a && b` and `a || b` combine commit rules. For two types of your own, outside this namespace,
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
