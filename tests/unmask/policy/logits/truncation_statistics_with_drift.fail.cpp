// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: cannot compare rows with the rows of the previous step
#include <unmask/core/policy.hpp>
#include <unmask/policy/commit/adaptive.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/logits/temperature.hpp>
#include <unmask/policy/logits/truncation.hpp>
#include <unmask/policy/ranking.hpp>

int main() {
  using namespace unmask;
  const policy p{
      by_confidence{}, adaptive_threshold{}, sampling{}, top_p{}, confidence_after_truncation{}};
  static_cast<void>(p);
}
