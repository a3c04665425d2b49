// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: factor, hierarchical and similar rules need candidates in the order of their confidence
#include <unmask/unmask.hpp>

constexpr unmask::policy p{unmask::left_to_right{}, unmask::tokens_per_step{} || unmask::factor{}};
