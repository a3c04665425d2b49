// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: write token_list and no_end_before before parts that remember tokens
#include <unmask/policy/admission.hpp>
#include <unmask/policy/credit.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/revise.hpp>

int main() {
  const unmask::policy p{unmask::by_confidence{}, unmask::top_k{1}, unmask::trace_credit<8>{},
                         unmask::token_list<2>{{1, 2}}};
  static_cast<void>(p);
}
