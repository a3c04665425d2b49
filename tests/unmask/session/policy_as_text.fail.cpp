// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: for a policy as text named_session\(read_policy\(text\), model, capacity\) of
// lines: 20
#include <unmask/unmask.hpp>

#include <vector>

void decode(std::vector<unmask::token_id>& tokens) {
  unmask::session s("threshold(0.9)", {.vocab = 8, .mask_token = 7}, tokens, {.length = 8});
}
