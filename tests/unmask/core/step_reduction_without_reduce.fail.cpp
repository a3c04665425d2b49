// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A misspelt function beside one that is right.
// expect: this part has a step reduction and no reduce
#include <unmask/unmask.hpp>

struct counts_in_vain {
  struct step_reduction {
    int count = 0;
    void merge(const step_reduction& o) { count += o.count; }
  };
  static constexpr unmask::statistics required = unmask::stat::none;
  step_reduction reduces(const auto&, const auto&) const { return {1}; }
  bool commits(const auto&, const unmask::rank_info& s, const auto& context) const {
    return s.rank < context.step_reduction.count;
  }
};

constexpr unmask::policy p{unmask::by_confidence{}, counts_in_vain{}};
