// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: hierarchical commits the most confident candidate of each run
#include <unmask/unmask.hpp>

constexpr unmask::policy p{unmask::left_to_right{}, unmask::top_k{} || unmask::hierarchical{}};
