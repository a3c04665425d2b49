// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The loop of examples/quickstart.cpp around an engine of one line.
#pragma once

#include <unmask/unmask.hpp>

#include <cstdio>
#include <vector>

namespace bench {

inline constexpr int vocab = 64;

template <class Policy>
void decode(const Policy& policy) {
  std::vector<unmask::token_id> tokens(40);
  std::vector<float> logits(tokens.size() * vocab);
  unmask::session session(policy,
                          {.vocab = vocab, .mask_token = 0, .eos_token = 1},
                          tokens,
                          {.prompt_length = 8, .length = 40, .block_length = 16});
  while (const auto request = session.next()) {
    for (std::size_t i = 0; i < logits.size(); ++i) {
      logits[i] = static_cast<float>(i * 2654435761U % 1024U);
    }
    session.supply(unmask::host_logits<float>(logits.data(), request->rows, vocab));
  }
  std::printf(
      "%d tokens in %d forward passes\n", session.report().committed, session.report().forwards);
}

}  // namespace bench
