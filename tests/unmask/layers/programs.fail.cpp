// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs that must not compile, each with the message that it must get: tests/fail/expect.py.

// case: lookahead_and_skipping
// expect: a policy with lookahead, drafts or a beam cannot skip positions at its layers
#include <unmask/unmask.hpp>

constexpr unmask::policy p{
    unmask::by_confidence{}, unmask::tokens_per_step{1}, unmask::early_skip{}, unmask::lookahead{}};

// case: two_caches
// expect: a policy has at most one cache
#include <unmask/unmask.hpp>

constexpr unmask::policy p{unmask::by_confidence{},
                           unmask::tokens_per_step{1},
                           unmask::dual_cache{},
                           unmask::prefix_cache{}};

// case: two_layer_rules
// expect: a policy skips positions with one part
#include <unmask/unmask.hpp>

constexpr unmask::policy p{unmask::by_confidence{},
                           unmask::tokens_per_step{1},
                           unmask::early_skip{},
                           unmask::early_skip{}};
