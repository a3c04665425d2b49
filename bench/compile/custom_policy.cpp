// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A policy with a ranking and an admission of the program's own, as in examples/custom_policy.cpp.
#include <unmask/unmask.hpp>

#include <cstdio>
#include <vector>

namespace {

struct leaning_left {
  float pull = 0.005F;
  static constexpr unmask::statistics required = unmask::stat::confidence;
  UNMASK_HD float score(const auto& candidate) const {
    return candidate.confidence() - pull * static_cast<float>(candidate.position);
  }
};

struct seen_again {
  float threshold = 0.6F;
  static constexpr unmask::statistics required = unmask::stat::confidence;
  struct position_state {
    unmask::token_id leader = unmask::no_token;
  };
  UNMASK_HD bool admits(const auto& candidate, const unmask::standing&, auto& own) const {
    const bool again = candidate.token == own.state.leader;
    own.state.leader = candidate.token;
    return again && candidate.confidence() > threshold;
  }
};

constexpr int vocab = 64;

}  // namespace

int main() {
  constexpr unmask::policy mine{
      leaning_left{}, unmask::confidence_above{0.999F} || seen_again{}, unmask::stop_at_end{}};
  std::vector<unmask::token_id> tokens(40);
  std::vector<float> logits(tokens.size() * vocab);
  unmask::session session(mine,
                          {.vocab = vocab, .mask_token = 0, .end_token = 1},
                          tokens,
                          {.prompt = 8, .length = 40, .block_length = 16});
  while (const auto request = session.next()) {
    for (std::size_t i = 0; i < logits.size(); ++i) {
      logits[i] = static_cast<float>(i * 2654435761U % 1024U);
    }
    session.supply(unmask::host_logits<float>(logits.data(), request->rows, vocab));
  }
  std::printf("%d\n", session.report().forwards);
}
