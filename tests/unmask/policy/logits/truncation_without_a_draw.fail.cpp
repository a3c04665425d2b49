// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: add sampling{} or confidence_after_truncation{}
#include <unmask/core/policy.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/logits/truncation.hpp>
#include <unmask/policy/ranking.hpp>

int main() {
  using namespace unmask;
  const policy p{by_confidence{}, tokens_per_step{1}, top_p{}};
  static_cast<void>(p);
}
