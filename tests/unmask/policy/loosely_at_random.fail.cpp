// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: at_random is random as it is
#include <unmask/unmask.hpp>

constexpr unmask::policy p{unmask::loosely<unmask::at_random>{}, unmask::top_k{}};
