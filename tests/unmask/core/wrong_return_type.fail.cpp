// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A score that is not a float is not a score; the policy is not said to lack a ranking.
// expect: (?s)\A(?!.*exactly one).*score\(candidate, context\) must be const and return float
#include <unmask/unmask.hpp>

struct in_double {
  static constexpr unmask::statistics required = unmask::stat::none;
  double score(const auto& c) const { return c.position; }
};

constexpr unmask::policy p{in_double{}, unmask::tokens_per_step{}};
