// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs that must not compile, each with the message that it must get: tests/fail/expect.py.

// case: allowed_tokens_after_credit
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

// case: min_new_tokens_after_credit
// expect: write allowed_tokens and min_new_tokens before parts that store tokens between steps
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/logits/credit.hpp>
#include <unmask/policy/logits/eos.hpp>
#include <unmask/policy/ranking.hpp>

int main() {
  const unmask::policy p{unmask::by_confidence{},
                         unmask::tokens_per_step{1},
                         unmask::trace_credit<8>{},
                         unmask::min_new_tokens{4}};
  static_cast<void>(p);
}

// case: truncation_in_edited_branches
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

// case: truncation_nothing
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

// case: truncation_statistics_with_drift
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

// case: truncation_with_credit
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

// case: truncation_without_a_draw
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

// case: two_draws
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
