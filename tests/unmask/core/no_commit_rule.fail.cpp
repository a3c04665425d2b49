// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a policy needs exactly one commit rule
#include <unmask/unmask.hpp>

constexpr unmask::policy p{unmask::by_confidence{}, unmask::single_block{}};
