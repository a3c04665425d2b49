// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A request that is cancelled and started again with its tokens, as after a preemption that loses
// its K/V, goes on as if nothing had happened, if its policy reads logits and tokens alone.
#include <unmask/named/read_policy.hpp>
#include <unmask/named_policy.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace unmask::testing::resumed_test {
namespace {

constexpr index_t length = 20;
constexpr index_t prompt = 4;
constexpr index_t vocab = 12;
constexpr token_id mask = 11;

// Rows of a model that depend on all tokens.
std::vector<float> forward(const std::vector<token_id>& tokens, range rows) {
  std::uint64_t seen = 1;
  for (const token_id t : tokens) {
    seen = (seen ^ static_cast<std::uint64_t>(t + 1)) * 0x9e3779b97f4a7c15U;
  }
  std::vector<float> z;
  for (index_t p = rows.first; p < rows.last; ++p) {
    std::uint64_t x = seen + static_cast<std::uint64_t>(p);
    for (index_t v = 0; v < vocab; ++v) {
      x = (x ^ x >> 31U) * 0xbf58476d1ce4e5b9U + 1;
      z.push_back(static_cast<float>(x >> 40U) * 0x1p-20F);
    }
  }
  return z;
}

// Decodes; after `stop_after` passes the request is cancelled and started again in another slot.
std::vector<token_id> decoded(const std::string& policy, index_t shift, int stop_after) {
  std::vector<token_id> tokens(length, 3);
  std::vector<std::uint8_t> editable(length, 1);
  for (index_t p = 0; p < length; ++p) {
    editable[std::size_t(p)] = p < prompt || p == 9 ? 0 : p == 13 ? 2 : 1;
  }
  const sequence_shape shape{
      .prompt_length = prompt, .length = length, .block_length = 5, .seed = 1};
  named_session s(read_policy(policy),
                  {.vocab = vocab, .mask_token = mask, .logits_shift = shift},
                  {.sequences = 2, .length = length, .window = length});
  s.start(0, tokens, shape, {.editable = editable});
  for (int pass = 0;; ++pass) {
    if (pass == stop_after && !s.finished()) {
      s.cancel(0);
      EXPECT_EQ(s.report(0).end, ending::cancelled);
      for (index_t p = 0; p < length; ++p) {
        std::uint8_t& e = editable[std::size_t(p)];
        e = e == 1 && tokens[std::size_t(p)] != mask ? 2 : e;
      }
      s.start(1, tokens, shape, {.editable = editable});
      EXPECT_TRUE(s.planned(1).refresh);
      EXPECT_EQ(s.planned(1).query.first, 0) << "the first pass computes all that later ones read";
    }
    const auto request = s.next();
    if (!request) {
      return tokens;
    }
    EXPECT_EQ(request->segments.size(), 1U);
    s.supply(host_logits<float>(
        forward(tokens, request->segments[0].rows).data(), request->rows, vocab));
  }
}

TEST(session, goes_on_with_a_request_whose_keys_are_gone) {
  for (const char* const policy : {"threshold(0.4)",
                                   "tokens_per_step(2)",
                                   "by_margin + entropy_bound(0.3)",
                                   "threshold(0.4) + dual_cache",
                                   "threshold(0.4) + prefix_cache",
                                   "threshold(0.4) + single_block",
                                   "left_to_right + tokens_per_step(1)"}) {
    for (const index_t shift : {0, 1}) {
      const std::vector<token_id> whole = decoded(policy, shift, -1);
      for (int after = 0; after < 16; ++after) {
        EXPECT_EQ(decoded(policy, shift, after), whole) << policy << " after " << after;
      }
    }
  }
}

// Parts that count passes begin anew.
TEST(session, counts_the_passes_of_a_start) {
  EXPECT_NE(decoded("steps_per_block(2)", 0, 1), decoded("steps_per_block(2)", 0, -1));
}

// The engine returns the rows of the request as they are: none is to be shifted.
TEST(session, requests_the_rows_that_predict_its_positions) {
  for (const index_t shift : {0, 1}) {
    for (const index_t first : {0, 4}) {
      std::vector<token_id> tokens(12, 3);
      named_session s(read_policy("tokens_per_step(8)"),
                      {.vocab = vocab, .mask_token = mask, .logits_shift = shift},
                      tokens,
                      {.prompt_length = first, .length = 12, .block_length = 8});
      const auto request = s.next();
      const range rows = request->segments[0].rows;
      EXPECT_EQ(rows.first, first == 0 ? 0 : first - shift);
      EXPECT_EQ(rows.last, first + 8 - shift);
      std::vector<float> z;
      for (index_t p = rows.first; p < rows.last; ++p) {  // row p is certain of token p % 11
        z.resize(z.size() + vocab, 0.0F);
        z[z.size() - vocab + std::size_t(p) % mask] = 20.0F;
      }
      s.supply(host_logits<float>(z.data(), request->rows, vocab));
      for (index_t p = first; p < first + 8; ++p) {
        const index_t row = p - shift < 0 ? 0 : p - shift;
        const token_id expected = row % mask;
        EXPECT_EQ(tokens[std::size_t(p)], expected) << "position " << p << ", shift " << shift;
      }
    }
  }
}

}  // namespace
}  // namespace unmask::testing::resumed_test
