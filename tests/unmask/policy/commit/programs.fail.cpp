// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs that must not compile, each with the message that it must get: tests/fail/expect.py.

// case: factor_left_to_right
// expect: factor, hierarchical and similar rules need candidates in the order of their confidence
#include <unmask/unmask.hpp>

constexpr unmask::policy p{unmask::left_to_right{}, unmask::tokens_per_step{} || unmask::factor{}};

// case: frontier_on_a_canvas
// expect: at_frontier does not combine with a canvas
#include <unmask/core/policy.hpp>
#include <unmask/policy/canvas.hpp>
#include <unmask/policy/commit/frontier.hpp>
#include <unmask/policy/ranking.hpp>

int main() {
  using namespace unmask;
  const policy p{by_entropy{}, at_frontier{}, canvas{.vocab = 7}};
  static_cast<void>(p);
}

// case: frontier_with_lookahead
// expect: at_frontier does not combine with lookahead
#include <unmask/core/policy.hpp>
#include <unmask/policy/commit/frontier.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/ranking.hpp>

int main() {
  using namespace unmask;
  const policy p{by_confidence{}, at_frontier{}, lookahead{}};
  static_cast<void>(p);
}

// case: frontier_with_remasking
// expect: at_frontier does not combine with parts that rewrite
#include <unmask/core/policy.hpp>
#include <unmask/policy/commit/frontier.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/remask/remask_below.hpp>

int main() {
  using namespace unmask;
  const policy p{by_confidence{}, at_frontier{}, remask_current_below{}};
  static_cast<void>(p);
}

// case: hierarchical_left_to_right
// expect: factor, hierarchical and similar rules need candidates in the order of their confidence
#include <unmask/unmask.hpp>

constexpr unmask::policy p{unmask::left_to_right{},
                           unmask::tokens_per_step{} || unmask::hierarchical{}};
