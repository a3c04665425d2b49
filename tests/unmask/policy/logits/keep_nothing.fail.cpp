// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: confidence_of_kept{} needs a part that keeps less than all
#include <unmask/core/policy.hpp>
#include <unmask/policy/commit/admission.hpp>
#include <unmask/policy/logits/keep.hpp>
#include <unmask/policy/ranking.hpp>

int main() {
  using namespace unmask;
  const policy p{by_confidence{}, top_k{1}, confidence_of_kept{}};
  static_cast<void>(p);
}
