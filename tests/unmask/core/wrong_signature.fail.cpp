// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A function of the wrong signature is named, and its part is not said to be missing.
// expect: (?s)\A(?!.*exactly one).*commits\(candidate, rank_info, context\) must be
#include <unmask/unmask.hpp>

struct without_a_rank {
  static constexpr unmask::statistics required = unmask::stat::confidence;
  UNMASK_HD bool commits(const auto& c) const { return c.confidence() > 0.9F; }
};

constexpr unmask::policy p{unmask::by_confidence{}, without_a_rank{}};
