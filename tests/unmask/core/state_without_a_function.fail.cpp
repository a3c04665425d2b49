// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A misspelt function beside one that is right.
// expect: this part has a position_state and no function that is given it
#include <unmask/unmask.hpp>

struct remembers_in_vain {
  struct position_state {
    float before = 0.0F;
  };
  static constexpr unmask::statistics required = unmask::stat::confidence;
  bool commits(const auto& c, const unmask::rank_info&) const { return c.confidence() > 0.5F; }
  void revis(auto& row, auto& context) const { context.state.before = row.total().best; }
};

constexpr unmask::policy p{unmask::by_confidence{}, remembers_in_vain{}};
