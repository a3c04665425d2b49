// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs that must not compile, each with the message that it must get: tests/fail/expect.py.

// case: remask_current_twice
// expect: a policy has at most one remask_current_below
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/remask/remask_below.hpp>

int main() {
  const unmask::policy p{unmask::by_confidence{},
                         unmask::tokens_per_step{3},
                         unmask::remask_current_below{0.2F},
                         unmask::remask_current_below{0.4F}};
  static_cast<void>(p);
}

// case: remask_in_two_ways
// expect: a policy has remask_below or remask_current_below, not both
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/remask/remask_below.hpp>

int main() {
  const unmask::policy p{unmask::by_confidence{},
                         unmask::tokens_per_step{3},
                         unmask::remask_current_below{0.2F},
                         unmask::remask_below{0.4F}};
  static_cast<void>(p);
}
