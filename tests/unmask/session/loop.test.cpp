// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <vector>

// The loop at the top of README.md, with an engine that knows only what is public.
namespace somebody::loop_test {
namespace {

constexpr int vocab = 8, mask = 0;

/// Prefers token p % vocab at position p, except for the mask, and is certain of it.
struct certain_engine {
  std::vector<float> logits;

  unmask::host_logits<float> forward(const unmask::forward_request& request) {
    logits.assign(static_cast<std::size_t>(request.rows) * vocab, 0.0F);
    for (int row = 0; row < request.rows; ++row) {
      const int position = request.segments[0].rows.first + row;
      logits[static_cast<std::size_t>(row * vocab + 1 + position % (vocab - 1))] = 9.0F;
    }
    return {logits.data(), request.rows, vocab};
  }
};

TEST(session, is_a_loop_of_two_calls) {
  constexpr unmask::policy policy{unmask::by_confidence{}, unmask::threshold{0.9F}};
  constexpr unmask::model_info model{.vocab = vocab, .mask_token = mask};
  constexpr unmask::sequence_shape shape{.prompt_length = 1, .length = 5};
  std::vector<int> tokens{7, 0, 0, 0, 0};
  certain_engine engine;

  // [loop]
  unmask::session session(policy, model, tokens, shape);
  while (const auto request = session.next()) {  // the positions whose logits are needed
    session.supply(engine.forward(*request));    // decides, and writes tokens in place
  }
  // [/loop]

  EXPECT_EQ(tokens, (std::vector<int>{7, 2, 3, 4, 5}));
  EXPECT_EQ(session.report().forwards, 1);
}

}  // namespace
}  // namespace somebody::loop_test
