// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: write token_list and no_end_before before parts that remember tokens
#include <unmask/policy/commit/admission.hpp>
#include <unmask/policy/logits/credit.hpp>
#include <unmask/policy/logits/end_of_text.hpp>
#include <unmask/policy/ranking.hpp>

int main() {
  const unmask::policy p{unmask::by_confidence{}, unmask::top_k{1}, unmask::trace_credit<8>{},
                         unmask::no_end_before{4}};
  static_cast<void>(p);
}
