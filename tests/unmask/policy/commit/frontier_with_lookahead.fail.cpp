// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: at_frontier does not combine with lookahead
#include <unmask/core/policy.hpp>
#include <unmask/policy/commit/frontier.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/ranking.hpp>

int main() {
  using namespace unmask;
  const policy p{by_confidence{}, at_frontier{}, lookahead{}};
  static_cast<void>(p);
}
