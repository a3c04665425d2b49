// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a policy has at most one cache
#include <unmask/unmask.hpp>

constexpr unmask::policy p{unmask::by_confidence{},
                           unmask::tokens_per_step{1},
                           unmask::dual_cache{},
                           unmask::prefix_cache{}};
