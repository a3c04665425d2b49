// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a policy draws tokens with one part
#include <unmask/core/policy.hpp>
#include <unmask/policy/canvas.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/logits/temperature.hpp>
#include <unmask/policy/ranking.hpp>

int main() {
  const unmask::policy p{unmask::by_entropy{},
                         unmask::entropy_bound{},
                         unmask::canvas{.vocab = 8},
                         unmask::sampling{}};
  static_cast<void>(p);
}
