// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A stop that returns bool would never be called.
// expect: stop\(sequence, context\) must be const and return ending
#include <unmask/unmask.hpp>

struct stops_with_bool {
  static constexpr unmask::statistics required = unmask::stat::none;
  bool commits(const auto&, const unmask::rank_info& s) const { return s.rank < 2; }
  bool stop(const unmask::sequence_view& q, const auto&) const { return q.step > 3; }
};

constexpr unmask::policy p{unmask::by_confidence{}, stops_with_bool{}};
