// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: this part has a function commit\(\): did you mean commits\(candidate, rank_info\)\?
#include <unmask/unmask.hpp>

struct misspelt {
  static constexpr unmask::statistics required = unmask::stat::confidence;
  bool commit(const auto& c, const unmask::rank_info&) const { return c.confidence() > 0.5F; }
};

constexpr unmask::policy p{unmask::by_confidence{}, misspelt{}};
