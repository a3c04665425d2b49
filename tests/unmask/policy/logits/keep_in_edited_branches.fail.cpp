// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: can watch tokens or look ahead
#include <unmask/core/policy.hpp>
#include <unmask/policy/commit/admission.hpp>
#include <unmask/policy/logits/edit.hpp>
#include <unmask/policy/logits/keep.hpp>
#include <unmask/policy/logits/revise.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/ranking.hpp>

int main() {
  using namespace unmask;
  const policy p{by_confidence{}, top_k{1}, sampling{}, keep_top_p{}, logit_bias<1>{}, lookahead{}};
  static_cast<void>(p);
}
