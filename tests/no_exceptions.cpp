// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiled without exceptions and without types at run time: decodes, then makes a mistake, which
// ends the program with the message that an exception would have.

#include <unmask/unmask.hpp>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main() {
  constexpr int length = 12, vocab = 30, mask = 0;
  int tokens[length];
  constexpr unmask::sequence_shape shape{.length = length, .block_length = 4};
  unmask::policy policy{unmask::by_confidence{}, unmask::threshold{0.9F}, unmask::sampling{}};
  const auto decode = [&] {
    unmask::session session(policy, {.vocab = vocab, .mask_token = mask}, {tokens, length}, shape);
    while (const auto request = session.next()) {
      const std::vector<float> logits(static_cast<std::size_t>(request->rows) * vocab, 0.5F);
      session.supply(unmask::host_logits<float>(logits.data(), request->rows, vocab));
    }
  };
  decode();
  for (const int token : tokens) {
    if (token == mask) {
      return EXIT_FAILURE;
    }
  }
  std::puts("decoded");
  std::fflush(stdout);
  std::signal(SIGABRT, [](int) { std::_Exit(EXIT_SUCCESS); });
  policy = {unmask::by_confidence{}, unmask::threshold{1.5F}, unmask::sampling{}};
  decode();
  return EXIT_FAILURE;
}
