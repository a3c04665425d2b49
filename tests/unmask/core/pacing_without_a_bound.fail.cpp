// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a schedule that paces itself, or a part that decides on a canvas, must say how many
#include <unmask/core/policy.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/ranking.hpp>

struct my_loop {
  static constexpr unmask::statistics required = unmask::stat::none;
  static constexpr bool paces = true;
  void schedule(unmask::sequence_view& q, unmask::plan& next, auto&) const {
    next.score = q.block(0);
  }
};

int main() {
  const unmask::policy p{unmask::by_confidence{}, unmask::tokens_per_step{3}, my_loop{}};
  static_cast<void>(p);
}
