// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: the name of a knob must be one that a text can spell
#define UNMASK_OWN_PARTS <unmask/core/policy.hpp>
#include UNMASK_OWN_PARTS

struct mine {
  float value = 0.5F;
  static constexpr unmask::statistics required = unmask::stat::confidence;
  static constexpr unmask::part_label label{"mine", "mine"};
  static constexpr unmask::knob<mine> knobs[] = {{"my value", &mine::value, unmask::within(0, 1)}};
  bool commits(const auto& c, const unmask::rank_info&) const { return c.confidence() > value; }
};

namespace unmask {
using own_parts = part_list<mine>;
}

#include <unmask/named_policy.hpp>

int main() {
  return unmask::read_policy("threshold").count;
}
