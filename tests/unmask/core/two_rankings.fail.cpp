// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a policy needs exactly one ranking
#include <unmask/unmask.hpp>

constexpr unmask::policy p{unmask::by_confidence{}, unmask::tokens_per_step{}, unmask::by_margin{}};
