// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A misspelt function beside one that is right.
// expect: this part has a tally and no survey
#include <unmask/unmask.hpp>

struct counts_in_vain {
  struct tally {
    int count = 0;
    void merge(const tally& o) { count += o.count; }
  };
  static constexpr unmask::statistics required = unmask::stat::none;
  tally surveys(const auto&, const auto&) const { return {1}; }
  bool admits(const auto&, const unmask::standing& s, const auto& own) const { return s.rank < own.tally.count; }
};

constexpr unmask::policy p{unmask::by_confidence{}, counts_in_vain{}};
