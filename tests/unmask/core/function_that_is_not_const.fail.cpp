// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A stage calls no function that changes its part: the policy would do without it.
// expect: process\(row, context\) must be const and return void
#include <unmask/unmask.hpp>

struct forgets_const {
  static constexpr unmask::statistics required = unmask::stat::confidence;
  bool commits(const auto& c, const unmask::rank_info&) const { return c.confidence() > 0.5F; }
  void process(auto& row, auto&) { row.add(3, 1.0F); }
};

constexpr unmask::policy p{unmask::by_confidence{}, forgets_const{}};
