// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs that must not compile, each with the message that it must get: tests/fail/expect.py.

// case: alg_temperature_at_random
// expect: at_random is random as it is
#include <unmask/unmask.hpp>

constexpr unmask::policy p{unmask::alg_temperature<unmask::at_random>{}, unmask::tokens_per_step{}};
