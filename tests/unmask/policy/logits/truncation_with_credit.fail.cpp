// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: cannot have a part that stores tokens between steps and edits
#include <unmask/core/policy.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/logits/credit.hpp>
#include <unmask/policy/logits/temperature.hpp>
#include <unmask/policy/logits/truncation.hpp>
#include <unmask/policy/ranking.hpp>

int main() {
  using namespace unmask;
  const policy p{by_confidence{}, tokens_per_step{1}, sampling{}, top_p{}, trace_credit<>{}};
  static_cast<void>(p);
}
