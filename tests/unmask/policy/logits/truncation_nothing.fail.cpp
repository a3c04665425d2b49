// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: confidence_after_truncation{}, or a part that reads stat::truncated, has no effect
#include <unmask/core/policy.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/logits/truncation.hpp>
#include <unmask/policy/ranking.hpp>

int main() {
  using namespace unmask;
  const policy p{by_confidence{}, tokens_per_step{1}, confidence_after_truncation{}};
  static_cast<void>(p);
}
