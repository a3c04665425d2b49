// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// session::abandon(): an engine whose forward pass fails.
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <stdexcept>
#include <vector>

namespace {

using namespace unmask;

constexpr model_info model{.vocab = 13, .mask_token = 0};
constexpr sequence_shape shape{.prompt_length = 2, .length = 18, .block_length = 6};

// Logits that depend on the tokens, the slot and the row.
std::vector<float> forward(const forward_request& request,
                           const std::vector<std::vector<token_id>>& tokens) {
  std::vector<float> out;
  for (const segment& s : request.segments) {
    std::vector<token_id> seen = tokens[static_cast<std::size_t>(s.slot)];
    if (s.branch > 0) {
      seen[static_cast<std::size_t>(s.placed.position)] = s.placed.token;
    }
    unsigned long hash = 7 + static_cast<unsigned long>(s.slot);
    for (const token_id t : seen) {
      hash = hash * 31 + static_cast<unsigned long>(t) + 1;
    }
    for (index_t r = s.rows.first; r < s.rows.last; ++r) {
      for (index_t v = 0; v < model.vocab; ++v) {
        const unsigned long mixed = (hash + static_cast<unsigned long>(r * 97 + v)) * 2654435761U;
        out.push_back(static_cast<float>(mixed % 4093U) / 512.0F);
      }
    }
  }
  return out;
}

// Decodes two sequences; pass k is abandoned first `failures(k)` times.
template <class Policy>
std::vector<std::vector<token_id>> decode(const Policy& p, const auto& failures) {
  std::vector<std::vector<token_id>> tokens(2, std::vector<token_id>(18, 3));
  session<Policy> s(model, {.sequences = 2, .length = 18, .window = 18, .branches = 4});
  for (index_t slot = 0; slot < 2; ++slot) {
    s.start(slot, p, {tokens[static_cast<std::size_t>(slot)].data(), 18}, shape);
  }
  for (int pass = 0; s.next(); ++pass) {
    for (int k = 0; k < failures(pass); ++k) {
      s.abandon();
      EXPECT_TRUE(s.next());
    }
    const auto request = s.next();
    const std::vector<float> logits = forward(*request, tokens);
    s.supply(host_logits<float>(logits.data(), request->rows, model.vocab));
  }
  return tokens;
}

template <class Policy>
void expect_no_effect(const Policy& p) {
  EXPECT_EQ(decode(p, [](int) { return 0; }), decode(p, [](int pass) { return pass % 3; }));
}

TEST(Abandon, ChangesNoDecode) {
  expect_no_effect(policy{by_confidence{}, threshold{0.4F}});
  expect_no_effect(policy{by_confidence{}, trace_credit<>{}, threshold{0.4F}});
  expect_no_effect(policy{by_entropy{}, tokens_per_step{2}, sampling{}, temperature{0.7F}});
  expect_no_effect(policy{by_confidence{}, threshold{0.4F} || tokens_per_step{1}, lookahead{3}});
  expect_no_effect(policy{by_confidence{}, adaptive_threshold{.start = 0.5F, .lower = 0.1F}});
}

TEST(Abandon, LetsSequencesLeaveAndJoinInMidStep) {
  const policy greedy{by_confidence{}, tokens_per_step{1}};
  std::vector<std::vector<token_id>> tokens(2, std::vector<token_id>(18, 3));
  session<std::remove_const_t<decltype(greedy)>> s(model,
                                                   {.sequences = 2, .length = 18, .window = 6});
  s.start(0, greedy, {tokens[0].data(), 18}, shape);
  s.start(1, greedy, {tokens[1].data(), 18}, shape);
  ASSERT_EQ(s.next()->segments.size(), 2U);
  s.abandon();
  s.cancel(0);
  ASSERT_EQ(s.next()->segments.size(), 1U);
  EXPECT_EQ(s.next()->segments[0].slot, 1);
  EXPECT_EQ(s.report(0).end, ending::cancelled);
  s.abandon();
  s.start(0, greedy, {tokens[0].data(), 18}, shape);
  EXPECT_EQ(s.next()->segments.size(), 2U);
}

TEST(Abandon, IsRefusedWithoutARequestAndAfterRead) {
  const policy greedy{by_confidence{}, tokens_per_step{1}};
  std::vector<token_id> tokens(18, 3);
  session s(greedy, model, tokens_view<memory::host>{tokens.data(), 18}, shape);
  EXPECT_THROW(s.abandon(), std::logic_error);
  const auto request = s.next();
  const std::vector<float> logits = forward(*request, {tokens});
  s.read(0, host_logits<float>(logits.data(), request->rows, model.vocab));
  EXPECT_THROW(s.abandon(), std::logic_error);
  s.decide();
  EXPECT_THROW(s.abandon(), std::logic_error);
  EXPECT_EQ(s.report().forwards, 1);
  ASSERT_TRUE(s.next());
  s.abandon();  // the next request can be
}

}  // namespace
