// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A session writes the tokens.
// expect: could not convert|no viable conversion
#include <unmask/unmask.hpp>

#include <vector>

unmask::tokens_view<unmask::memory::host> view(const std::vector<unmask::token_id>& tokens) {
  return tokens;
}
