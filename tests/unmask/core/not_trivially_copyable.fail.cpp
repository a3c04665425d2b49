// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a part must be trivially copyable
#include <unmask/unmask.hpp>

#include <vector>

struct table_ranking {
  std::vector<float> scores;
  static constexpr unmask::statistics required = unmask::stat::none;
  float score(const auto& c) const { return scores[static_cast<std::size_t>(c.position)]; }
};

const unmask::policy p{table_ranking{}, unmask::tokens_per_step{}};
