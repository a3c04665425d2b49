// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Nobody would make room for the tokens.
// expect: track\(list, context\) must be const, and the part must declare how many tokens it tracks
#include <unmask/unmask.hpp>

struct tracks_unsaid {
  static constexpr unmask::statistics required = unmask::stat::none;
  void track(auto& list, const auto&) const { list.add(3); }
  void process(auto& row, const auto&) const { row.add(3, 1.0F); }
};

constexpr unmask::policy p{unmask::by_confidence{}, unmask::tokens_per_step{}, tracks_unsaid{}};
