// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: at_frontier does not combine with a canvas
#include <unmask/core/policy.hpp>
#include <unmask/policy/canvas.hpp>
#include <unmask/policy/commit/frontier.hpp>
#include <unmask/policy/ranking.hpp>

int main() {
  using namespace unmask;
  const policy p{by_entropy{}, at_frontier{}, canvas{.vocab = 7}};
  static_cast<void>(p);
}
