// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: cannot compare rows with the step before
#include <unmask/core/policy.hpp>
#include <unmask/policy/commit/adaptive.hpp>
#include <unmask/policy/commit/admission.hpp>
#include <unmask/policy/logits/edit.hpp>
#include <unmask/policy/logits/keep.hpp>
#include <unmask/policy/ranking.hpp>

int main() {
  using namespace unmask;
  const policy p{
      by_confidence{}, adaptive_threshold{}, sampling{}, keep_top_p{}, confidence_of_kept{}};
  static_cast<void>(p);
}
