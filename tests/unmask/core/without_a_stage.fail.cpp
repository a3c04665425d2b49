// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A misspelt function: no step would call it.
// expect: a part of this policy has no function that a step calls: check the names, the arguments
#include <unmask/unmask.hpp>

struct misspelt {
  static constexpr unmask::statistics required = unmask::stat::none;
  bool commit(const auto&, const unmask::rank_info& s) const { return s.rank < 2; }
};

constexpr unmask::policy p{unmask::by_confidence{}, unmask::tokens_per_step{}, misspelt{}};
