// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: add sampling{} or confidence_of_kept{}
#include <unmask/core/policy.hpp>
#include <unmask/policy/commit/admission.hpp>
#include <unmask/policy/logits/keep.hpp>
#include <unmask/policy/ranking.hpp>

int main() {
  using namespace unmask;
  const policy p{by_confidence{}, top_k{1}, keep_top_p{}};
  static_cast<void>(p);
}
