// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/types.hpp>

#include <algorithm>
#include <cmath>
#include <span>

/// Intervals and paired comparisons of two policies on the same problems.
namespace UNMASK_NAMESPACE::tune {

/// An interval of numbers, ends included.
struct interval {
  double low = 0.0;   ///< Lower end.
  double high = 1.0;  ///< Upper end.
};

/// Wilson's interval of a share: `right` of `count`, at `z` standard deviations. [0, 1] for none.
///
/// Source: E. B. Wilson, Probable Inference, the Law of Succession, and Statistical Inference,
/// 1927.
[[nodiscard]] inline interval wilson(index_t right, index_t count, double z = 1.96) {
  if (count == 0) {
    return {};
  }
  const double n = count;
  const double share = right / n;
  const double spread =
      z / (1.0 + z * z / n) * std::sqrt(share * (1.0 - share) / n + z * z / (4.0 * n * n));
  const double middle = (share + z * z / (2.0 * n)) / (1.0 + z * z / n);
  return {std::max(0.0, middle - spread), std::min(1.0, middle + spread)};
}

/// Two-sided probability of at least such a difference if problems that one policy alone answers
/// were equally likely to be either's: McNemar's exact test. 1 without such problems.
///
/// Source: Q. McNemar, Note on the Sampling Error of the Difference Between Correlated Proportions
/// or Percentages, 1947. Cost: O(first + second).
[[nodiscard]] inline double mcnemar(index_t first, index_t second) {
  const double n = first + second;
  double sum = 0.0;
  for (index_t k = 0; k <= std::min(first, second); ++k) {
    sum += std::exp(std::lgamma(n + 1.0) - std::lgamma(k + 1.0) - std::lgamma(n - k + 1.0) -
                    n * std::log(2.0));
  }
  return std::min(1.0, 2.0 * sum);
}

/// Probability of at least `right` of `count` right answers if their share is `share`: the p-value
/// of the test that it is larger.
///
/// Cost: O(count).
[[nodiscard]] inline double binomial_tail(index_t right, index_t count, double share) {
  if (right <= 0 || share >= 1.0) {
    return 1.0;
  }
  const double n = count;
  double sum = 0.0;
  for (index_t k = right; k <= count && share > 0.0; ++k) {
    sum += std::exp(std::lgamma(n + 1.0) - std::lgamma(k + 1.0) - std::lgamma(n - k + 1.0) +
                    k * std::log(share) + (n - k) * std::log1p(-share));
  }
  return std::min(1.0, sum);
}

/// Comparison of one policy with another on the same problems.
struct comparison {
  index_t problems = 0;     ///< Problems that both decoded.
  index_t only_first = 0;   ///< Problems that only the first answers right.
  index_t only_second = 0;  ///< Problems that only the second answers right.
  double p = 1.0;           ///< mcnemar() of the two.
  double saved = 0.0;       ///< Mean cost of the second minus the first.
  double margin = 0.0;      ///< Half of the 95 % interval of that difference.

  /// True if the first costs less, and the interval of the difference excludes 0.
  [[nodiscard]] bool costs_less() const { return saved - margin > 0.0; }
};

/// Mean and half of the 95 % interval (normal) of differences; the interval of fewer than two is
/// infinite.
[[nodiscard]] inline comparison mean_of(std::span<const double> differences) {
  comparison c;
  const auto n = static_cast<double>(differences.size());
  for (const double d : differences) {
    c.saved += d / n;
  }
  double square = 0.0;
  for (const double d : differences) {
    square += (d - c.saved) * (d - c.saved);
  }
  c.margin = differences.size() < 2 ? HUGE_VAL : 1.96 * std::sqrt(square / (n - 1.0) / n);
  return c;
}

}  // namespace unmask::tune
