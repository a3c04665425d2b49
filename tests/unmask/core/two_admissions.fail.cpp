// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a policy needs exactly one admission: join several with && or ||
#include <unmask/unmask.hpp>

constexpr unmask::policy p{unmask::by_confidence{}, unmask::top_k{}, unmask::confidence_above{}};
