// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs that must not compile, each with the message that it must get: tests/fail/expect.py.

// case: no_kernel
// expect: statistics that unmask::compiled has no kernel for: define UNMASK_KERNELS as 1
// flags: -DUNMASK_COMPILED
#include <unmask/unmask.hpp>

constexpr unmask::policy p{unmask::by_margin{}, unmask::tokens_per_step{}, unmask::sampling{}};
void decode(unmask::session<std::remove_const_t<decltype(p)>>& session, const float* logits) {
  session.supply(unmask::host_logits<float>(logits, 1, 8));
}
