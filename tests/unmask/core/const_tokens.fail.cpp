// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a session writes the tokens: they must not be const
#include <unmask/unmask.hpp>

#include <vector>

unmask::tokens_view<unmask::memory::host> view(const std::vector<unmask::token_id>& tokens) {
  return tokens;
}
