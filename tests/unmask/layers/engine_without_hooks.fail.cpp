// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: decode with layer_session instead of session
#include <unmask/unmask.hpp>

int main() {
  std::vector<unmask::token_id> tokens(8, 1);
  constexpr unmask::policy p{unmask::by_confidence{},
                             unmask::tokens_per_step{1},
                             unmask::early_skip{},
                             unmask::block_cache{}};
  unmask::session session(
      p, {.vocab = 4, .mask_token = 3, .layers = 8}, tokens, {.prompt_length = 2, .length = 8});
}
