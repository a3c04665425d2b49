// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a part of UNMASK_OWN_PARTS is a ranking, a commit rule, a logits processor
#define UNMASK_OWN_PARTS <unmask/policy/logits/truncation.hpp>

#include UNMASK_OWN_PARTS

namespace unmask {
using own_parts = part_list<top_k>;
}

#include <unmask/named_policy.hpp>

int main() {
  return unmask::read_policy("threshold").count;
}
