// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: at_frontier does not combine with parts that rewrite
#include <unmask/core/policy.hpp>
#include <unmask/policy/commit/frontier.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/remask/remask_below.hpp>

int main() {
  using namespace unmask;
  const policy p{by_confidence{}, at_frontier{}, remask_current_below{}};
  static_cast<void>(p);
}
