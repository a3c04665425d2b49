// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a part must declare what it reads: static constexpr statistics required
#include <unmask/unmask.hpp>

struct mute {
  bool commits(const auto&, const unmask::rank_info& s) const { return s.rank < 2; }
};

constexpr unmask::policy p{unmask::by_confidence{}, mute{}};
