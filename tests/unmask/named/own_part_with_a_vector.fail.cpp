// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: must be trivially copyable and have a default: no std::vector
#include <vector>

#define UNMASK_OWN_PARTS <unmask/core/policy.hpp>
#include UNMASK_OWN_PARTS

struct mine {
  float value = 0.5F;
  static constexpr unmask::statistics required = unmask::stat::confidence;
  static constexpr unmask::part_label label{"mine", "mine"};
  struct position_state {
    std::vector<int> seen;
  };
  bool commits(const auto& c, const unmask::rank_info&, auto& context) const {
    context.state.seen.push_back(c.token);
    return c.confidence() > value;
  }
};

namespace unmask {
using own_parts = part_list<mine>;
}

#include <unmask/named_policy.hpp>

int main() {
  return unmask::read_policy("threshold").count;
}
