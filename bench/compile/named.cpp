// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A policy by name.
#include <unmask/named_policy.hpp>

#include <cstdio>
#include <vector>

int main(int count, char** arguments) {
  constexpr int vocab = 64;
  std::vector<unmask::token_id> tokens(40);
  std::vector<float> logits(tokens.size() * vocab);
  const std::string text = count > 1 ? arguments[1] : "trace_credit + threshold(0.9)";
  const unmask::named_policy policy = unmask::read_policy(text);
  unmask::named_session session(
      policy, {.vocab = vocab, .mask_token = 0, .eos_token = 1}, {.length = 40, .window = 40});
  session.start(0, policy, tokens, {.prompt_length = 8, .length = 40, .block_length = 16});
  while (const auto request = session.next()) {
    for (std::size_t i = 0; i < logits.size(); ++i) {
      logits[i] = static_cast<float>(i * 2654435761U % 1024U);
    }
    session.supply(unmask::host_logits<float>(logits.data(), request->rows, vocab));
  }
  std::printf("%d\n", session.report(0).forwards);
}
