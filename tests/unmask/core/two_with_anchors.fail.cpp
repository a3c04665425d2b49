// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a policy has at most one part with anchors
#include <unmask/unmask.hpp>

constexpr unmask::policy p{unmask::by_confidence{},
                           unmask::local_leap{} || unmask::local_leap{.radius = 1}};
