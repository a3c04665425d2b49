// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: must be trivially copyable and have a default: no std::vector
#include <unmask/unmask.hpp>

#include <vector>

struct collecting {
  static constexpr unmask::statistics required = unmask::stat::confidence;
  struct position_state {
    std::vector<int> seen;
  };
  bool commits(const auto& c, const unmask::rank_info&, auto& context) const {
    return c.confidence() > 0.5F && context.state.seen.empty();
  }
};

constexpr unmask::policy p{unmask::by_confidence{}, collecting{}};
