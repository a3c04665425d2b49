// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a part must declare what it reads: static constexpr statistics required
#include <unmask/unmask.hpp>

struct mute {
  bool admits(const auto&, const unmask::standing& s) const { return s.rank < 2; }
};

constexpr unmask::policy p{unmask::by_confidence{}, mute{}};
