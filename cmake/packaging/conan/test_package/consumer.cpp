// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/unmask.hpp>

#include <cstdio>
#include <vector>

// Decodes one position: the package holds all that a user includes.
int main() {
  const unmask::policy likeliest{unmask::by_confidence{}, unmask::tokens_per_step{1}};
  std::vector<unmask::token_id> tokens{0};
  unmask::session session(
      likeliest, {.vocab = 3, .mask_token = 0}, tokens, {.length = 1, .block_length = 1});
  const float logits[] = {9.0F, 1.0F, 2.0F};
  while (const auto request = session.next()) {
    session.supply(unmask::host_logits<float>(logits, request->rows, 3));
  }
  std::printf("unmask %d says %d\n", UNMASK_VERSION, tokens[0]);
  return tokens[0] == 2 ? 0 : 1;
}
