// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a part of UNMASK_OWN_PARTS with functions of several stages keeps no state
#define UNMASK_OWN_PARTS <unmask/core/policy.hpp>
#include UNMASK_OWN_PARTS

struct mine {
  float value = 0.5F;
  static constexpr unmask::statistics required = unmask::stat::confidence;
  static constexpr unmask::part_label label{"mine", "mine"};
  struct sequence_state {
    int steps = 0;
  };
  float score(const auto& c) const { return c.confidence() - value; }
  unmask::ending stop(const unmask::sequence_view&, auto& context) const {
    return ++context.sequence.steps > 3 ? unmask::ending::max_steps : unmask::ending::running;
  }
};

namespace unmask {
using own_parts = part_list<mine>;
}

#include <unmask/named_policy.hpp>

int main() {
  return unmask::read_policy("threshold").count;
}
