// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

// A batch as an engine serves it, knowing only what is public: each request has restrictions of its
// own.
namespace somebody {
namespace {

constexpr int vocab = 100, mask = 0;
constexpr int words = (vocab + 31) / 32;
constexpr std::uint32_t all = 0xffffffffU;

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
    std::vector<std::uint32_t> allowed(std::size_t(request->rows) * words, all);
    for (const unmask::segment& s : request->segments) {
      for (int p = s.rows.first; p < s.rows.last && s.slot == 1; ++p) {
        const int row = s.first_row + p - s.rows.first;  // of the packed logits
        std::ranges::copy(grammar, allowed.begin() + row * words);
      }
    }
    const std::vector<float> logits = forward(*request);
    session.supply(unmask::host_logits<float>(logits.data(), request->rows, vocab),
                   {.allowed = allowed.data(), .allowed_stride = words});
  }
  // [/modifiers]

  EXPECT_EQ(first, std::vector<int>(4, 3));
  EXPECT_EQ(second, std::vector<int>(4, 70));
  EXPECT_EQ(third, std::vector<int>(4, 1));
}

}  // namespace
}  // namespace somebody
