// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a policy needs a ranking and a commit rule, such as policy
// lines: 80
#include <unmask/unmask.hpp>

#include <vector>

void decode(std::vector<unmask::token_id>& tokens, const unmask::model_info& model) {
  unmask::session s{unmask::policy{}, model, tokens, unmask::sequence_shape{.length = 4}};
  s.supply(unmask::host_logits<float>());
}
