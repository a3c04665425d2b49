// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// UNMASK_POLICIES policies decode.
#include "decode.hpp"

int main() {
  using namespace unmask;
  using bench::decode;
  decode(policy{by_confidence{}, threshold{0.9F}, stop_at_eos{}});
#if UNMASK_POLICIES > 1
  decode(policy{by_confidence{}, tokens_per_step{2}, stop_at_eos{}});
#endif
#if UNMASK_POLICIES > 2
  decode(policy{by_margin{}, tokens_per_step{1}});
  decode(policy{by_entropy{}, entropy_bound{0.1F}});
  decode(policy{by_confidence{}, trace_credit<>{}, threshold{0.9F}});
  decode(policy{left_to_right{}, threshold{0.8F}, dual_cache{}});
  decode(policy{by_confidence{}, factor{1.0F}, temperature{0.7F}, sampling{}});
  decode(policy{by_confidence{}, threshold{0.9F} || tokens_per_step{1}, lookahead{3}});
#endif
}
