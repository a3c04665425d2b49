// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a policy has remask_below or reopen_below
#include <unmask/policy/commit/admission.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/remask/revisit.hpp>

int main() {
  const unmask::policy p{unmask::by_confidence{}, unmask::top_k{3}, unmask::reopen_below{0.2F},
                         unmask::remask_below{0.4F}};
  static_cast<void>(p);
}
