// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a policy has at most one schedule
#include <unmask/unmask.hpp>

constexpr unmask::policy p{unmask::by_confidence{},
                           unmask::tokens_per_step{},
                           unmask::single_block{},
                           unmask::semi_autoregressive{}};
