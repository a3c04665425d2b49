// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Half of a program: decodes with the version of the library that is on its path, whose default
// threshold is its own.
#include <unmask/unmask.hpp>

#include <cmath>
#include <vector>

int UNMASK_TEST_DECODE();

/// Passes of a decode whose rows all have the confidence 0.7.
int UNMASK_TEST_DECODE() {
  constexpr int length = 8, vocab = 2, mask = 1;
  int tokens[length];
  const unmask::policy policy{unmask::by_confidence{}, unmask::threshold{}};
  unmask::session session(policy,
                          {.vocab = vocab + 1, .mask_token = mask},
                          {tokens, length},
                          {.length = length, .block_length = length});
  int passes = 0;
  while (const auto request = session.next()) {
    std::vector<float> logits;
    for (int r = 0; r < request->rows; ++r) {
      logits.insert(logits.end(), {std::log(0.7F), 0.0F, std::log(0.3F)});
    }
    session.supply(unmask::host_logits<float>(logits.data(), request->rows, vocab + 1));
    ++passes;
  }
  return passes;
}
