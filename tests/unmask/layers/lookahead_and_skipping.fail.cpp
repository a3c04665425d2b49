// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a policy with lookahead, drafts or a beam cannot skip positions at its layers
#include <unmask/unmask.hpp>

constexpr unmask::policy p{
    unmask::by_confidence{}, unmask::tokens_per_step{1}, unmask::early_skip{}, unmask::lookahead{}};
