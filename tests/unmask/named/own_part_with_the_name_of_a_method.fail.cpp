// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a part of UNMASK_OWN_PARTS has the name of a part or of a method of the library
#define UNMASK_OWN_PARTS <unmask/core/policy.hpp>
#include UNMASK_OWN_PARTS

struct mine {
  float value = 0.5F;
  static constexpr unmask::statistics required = unmask::stat::confidence;
  static constexpr unmask::part_label label{"lopa", "mine"};
  bool commits(const auto& c, const unmask::rank_info&) const { return c.confidence() > value; }
};

namespace unmask {
using own_parts = part_list<mine>;
}

#include <unmask/named_policy.hpp>

int main() {
  return unmask::read_policy("threshold").count;
}
