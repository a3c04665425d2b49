// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: can either track tokens or have lookahead
#include <unmask/core/policy.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/logits/temperature.hpp>
#include <unmask/policy/logits/tokens.hpp>
#include <unmask/policy/logits/truncation.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/ranking.hpp>

int main() {
  using namespace unmask;
  const policy p{
      by_confidence{}, tokens_per_step{1}, sampling{}, top_p{}, logit_bias<1>{}, lookahead{}};
  static_cast<void>(p);
}
