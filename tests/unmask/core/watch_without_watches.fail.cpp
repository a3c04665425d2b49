// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Nobody would make room for the tokens.
// expect: watch\(list, own\) must be const, and the part must say how many tokens it watches
#include <unmask/unmask.hpp>

struct watches_unsaid {
  static constexpr unmask::statistics required = unmask::stat::none;
  void watch(auto& list, const auto&) const { list.add(3); }
  void revise(auto& row, const auto&) const { row.add(3, 1.0F); }
};

constexpr unmask::policy p{unmask::by_confidence{}, unmask::top_k{}, watches_unsaid{}};
