// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs that must not compile, each with the message that it must get: tests/fail/expect.py.

// case: two_costs
// expect: a commit rule may contain one part with a cost, not two
#include <unmask/unmask.hpp>

#include <vector>

void decode(std::vector<unmask::token_id>& tokens, const unmask::model_info& model) {
  unmask::session s{unmask::policy{unmask::by_entropy{},
                                   unmask::entropy_bound{.1F} || unmask::entropy_bound{.2F}},
                    model,
                    unmask::tokens_view<unmask::memory::host>(tokens),
                    unmask::sequence_shape{.length = 4}};
  s.supply(unmask::host_logits<float>());
}
