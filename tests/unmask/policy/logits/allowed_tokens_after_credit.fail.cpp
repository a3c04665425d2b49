// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: write allowed_tokens and min_new_tokens before parts that store tokens between steps
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/logits/credit.hpp>
#include <unmask/policy/logits/tokens.hpp>
#include <unmask/policy/ranking.hpp>

int main() {
  const unmask::policy p{unmask::by_confidence{},
                         unmask::tokens_per_step{1},
                         unmask::trace_credit<8>{},
                         unmask::allowed_tokens<2>{{1, 2}}};
  static_cast<void>(p);
}
