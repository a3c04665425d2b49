// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

// A batch as an engine serves it, knowing only what is public: each request has restrictions of its
// own.
namespace somebody::modifiers_test {
namespace {

constexpr int vocab = 100, mask = 0;
constexpr int words = (vocab + 31) / 32;

/// Logits that fall with the token: 1 is the best token that is not the mask, then 2.
std::vector<float> forward(const unmask::forward_request& request) {
  std::vector<float> logits(static_cast<std::size_t>(request.rows) * vocab);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = -static_cast<float>(i % vocab);
  }
  return logits;
}

TEST(session, has_requests_with_restrictions_of_their_own) {
  const unmask::policy fast{unmask::by_confidence{}, unmask::threshold{0.6F}};
  const unmask::sequence_shape shape{.length = 4, .block_length = 4};
  unmask::session<unmask::policy<unmask::by_confidence, unmask::threshold>> session(
      {.vocab = vocab, .mask_token = mask}, {.sequences = 3, .length = 4, .window = 4});
  std::vector<int> first(4), second(4), third(4);
  std::array<std::uint32_t, words> grammar{};
  grammar[70 / 32] |= 1U << 70 % 32;
  grammar[99 / 32] |= 1U << 99 % 32;

  // [modifiers]
  const std::array never{1, 2};  // tokens
  session.start(0, fast, first, shape, {.suppressed = never});
  session.start(1, fast, second, shape);  // has a grammar: words of `grammar` in each step
  session.start(2, fast, third, shape);
  while (const auto request = session.next()) {
    const std::vector<float> logits = forward(*request);
    std::vector<unmask::host_logits<float>> tensors;
    std::vector<unmask::row_modifiers<float>> modifiers;
    for (const unmask::segment& s : request->segments) {
      tensors.push_back({logits.data() + s.first_row * vocab, s.rows.size(), vocab});
      modifiers.push_back({.allowed = s.slot == 1 ? grammar.data() : nullptr});
    }
    session.supply(tensors, modifiers);
  }
  // [/modifiers]

  EXPECT_EQ(first, std::vector<int>(4, 3));
  EXPECT_EQ(second, std::vector<int>(4, 70));
  EXPECT_EQ(third, std::vector<int>(4, 1));
}

// Guidance of a strength of its own for each request: as if each were decoded alone.
TEST(session, has_requests_with_guidance_of_their_own) {
  const unmask::policy fast{unmask::by_confidence{}, unmask::threshold{0.6F}};
  using session_of_fast = unmask::session<unmask::policy<unmask::by_confidence, unmask::threshold>>;
  const unmask::sequence_shape shape{.length = 4, .block_length = 4};
  std::vector<float> unconditional(vocab, 0.0F);
  unconditional[1] = 3.0F;  // guidance above 0.5 makes 2 the best
  const std::array<float, 3> scales{0.0F, 0.1F, 4.0F};
  const auto guided = [&](float scale) {
    return unmask::row_modifiers<float>{.unconditional = unconditional.data(), .cfg_scale = scale};
  };

  std::vector<std::vector<int>> alone(3, std::vector<int>(4));
  for (std::size_t i = 0; i < 3; ++i) {
    session_of_fast session({.vocab = vocab, .mask_token = mask},
                            {.sequences = 1, .length = 4, .window = 4});
    session.start(0, fast, alone[i], shape);
    while (const auto request = session.next()) {
      const std::vector<float> logits = forward(*request);
      session.supply(unmask::host_logits<float>(logits.data(), request->rows, vocab),
                     guided(scales[i]));
    }
  }
  EXPECT_NE(alone[1], alone[2]);

  std::vector<std::vector<int>> together(3, std::vector<int>(4));
  session_of_fast session({.vocab = vocab, .mask_token = mask},
                          {.sequences = 3, .length = 4, .window = 4});
  for (int slot = 0; slot < 3; ++slot) {
    session.start(slot, fast, together[static_cast<std::size_t>(slot)], shape);
  }
  while (const auto request = session.next()) {
    const std::vector<float> logits = forward(*request);
    std::vector<unmask::host_logits<float>> tensors;
    std::vector<unmask::row_modifiers<float>> modifiers;
    for (const unmask::segment& s : request->segments) {
      tensors.push_back({logits.data() + s.first_row * vocab, s.rows.size(), vocab});
      modifiers.push_back(guided(scales[static_cast<std::size_t>(s.slot)]));
    }
    session.supply(tensors, modifiers);
  }
  EXPECT_EQ(together, alone);
}

}  // namespace
}  // namespace somebody::modifiers_test
