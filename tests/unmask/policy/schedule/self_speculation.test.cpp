// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The law of drafts that a causal pass checks: the answer is greedy decoding of the causal model,
// whatever drafts. tests/cases has what single passes do.
#include <unmask/host/backend.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/presets/methods.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/schedule/self_speculation.hpp>
#include <unmask/policy/stop.hpp>
#include <unmask/session.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "support/attending_engine.hpp"
#include "support/by_name.hpp"
#include "support/dice.hpp"

namespace unmask::testing::self_speculation_test {
namespace {

struct speculation {
  attending_engine engine;
  std::vector<token_id> tokens;
  sequence_shape shape;
  std::vector<std::uint8_t> editable;
};

speculation random_speculation(dice& d) {
  speculation s;
  const auto pick = [&](index_t low, index_t high) { return d.within(low, high); };
  s.engine.seed = static_cast<std::uint64_t>(pick(0, 1 << 30));
  s.engine.vocab = pick(2, 40);
  s.engine.mask = pick(0, s.engine.vocab - 1);
  s.engine.right = static_cast<std::uint64_t>(pick(0, 1) * pick(0, 256));
  s.shape.prompt_length = pick(1, 6);
  s.shape.length = s.shape.prompt_length + pick(0, 40);
  s.shape.block_length = pick(1, 50);
  for (index_t p = 0; p < s.shape.length; ++p) {
    const bool is_prompt = p < s.shape.prompt_length;
    s.editable.push_back(is_prompt || pick(0, 9) == 0 ? 0 : 1);
    s.tokens.push_back((s.engine.mask + 1 + pick(0, s.engine.vocab - 2)) % s.engine.vocab);
  }
  if (pick(0, 1) == 0) {
    std::fill(s.editable.begin() + s.shape.prompt_length, s.editable.end(), std::uint8_t{1});
  }
  return s;
}

// Greedy decoding of the causal model, from left to right.
std::vector<token_id> greedy(const speculation& s) {
  std::vector<token_id> x = s.tokens;
  for (index_t p = s.shape.prompt_length; p < s.shape.length; ++p) {
    if (s.editable[static_cast<std::size_t>(p)] != 0) {
      const auto seen = std::span<const token_id>(x).first(static_cast<std::size_t>(p));
      std::vector<float> row = s.engine.row(p, seen, attention_kind::causal);
      row[static_cast<std::size_t>(s.engine.mask)] = -1.0F;
      x[static_cast<std::size_t>(p)] =
          static_cast<token_id>(std::max_element(row.begin(), row.end()) - row.begin());
    }
  }
  return x;
}

template <class Policy>
void expect_greedy(const Policy& policy,
                   const speculation& s,
                   bool rule_commits_in_each_pass = false) {
  std::vector<token_id> x = s.tokens;
  const std::vector<token_id> expected = greedy(s);
  session<Policy> decode(
      policy,
      {.vocab = s.engine.vocab, .mask_token = s.engine.mask, .causal_attention = true},
      {.length = s.shape.length, .window = s.shape.length});
  decode.start(0, {x.data(), static_cast<index_t>(x.size())}, s.shape, {.editable = s.editable});
  index_t cached = 0;  // causal K/V
  while (const auto request = decode.next()) {
    const segment pass = request->segments[0];
    EXPECT_LE(pass.query.first, cached) << "K/V of a position that no pass computed";
    EXPECT_EQ(pass.keys.first, 0);
    EXPECT_EQ(pass.keys.last, pass.query.last);
    EXPECT_EQ(decode.planned(0).freeze, (range{0, pass.query.first}));
    cached = pass.attention == attention_kind::causal ? pass.query.last : pass.query.first;
    const std::vector<float> logits = s.engine.rows(*request, x);
    decode.supply(host_logits<float>(logits.data(), request->rows, s.engine.vocab));
    const index_t prefix = decode.report().committed_prefix;
    EXPECT_TRUE(std::equal(x.begin(), x.begin() + prefix, expected.begin()))
        << "a draft in the committed prefix";
    cached = std::min(cached, prefix);
    ASSERT_LE(decode.report().forwards, most_forwards(policy, s.shape));
  }
  EXPECT_EQ(x, expected);
  EXPECT_EQ(decode.report().end, ending::complete);
  if (rule_commits_in_each_pass) {
    EXPECT_EQ(decode.report().forced, 0);
  }
}

/// A decode of 12 positions after a prompt of 1, in drafts of 4 at most. The best token of a
/// position is its index, but for the position `wrong` in a pass that drafts.
struct checked_drafts {
  index_t forwards = 0;
  std::vector<candidate_entry> rejected;
};
checked_drafts drafts_of_four(const std::vector<index_t>& given, index_t wrong = -1) {
  const auto p = by_name(policy{by_margin{}, self_speculation{4, 4}, threshold{0.0F}});
  session<std::remove_const_t<decltype(p)>> s(
      {.vocab = 16, .mask_token = 15, .causal_attention = true},
      {.length = 13, .window = 12, .trace = true});
  std::vector<token_id> tokens(13);
  std::vector<std::uint8_t> editable(13, 1);
  editable[0] = 0;
  for (index_t i = 0; i < 13; ++i) {
    tokens[static_cast<std::size_t>(i)] = i;
  }
  for (const index_t i : given) {
    editable[static_cast<std::size_t>(i)] = 0;
  }
  const std::vector<token_id> expected = tokens;
  s.start(0, p, tokens, {.prompt_length = 1, .length = 13}, {.editable = editable});
  checked_drafts result;
  while (const auto request = s.next()) {
    const segment& part = request->segments[0];
    std::vector<float> logits(static_cast<std::size_t>(request->rows) * 16);
    for (index_t r = 0; r < part.rows.size(); ++r) {
      const index_t target = std::min(part.rows.first + r + part.logits_shift, index_t{12});
      const bool errs = target == wrong && s.planned().kind != pass_kind::checking;
      logits[static_cast<std::size_t>(r * 16 + (errs ? 14 : target))] = 9.0F;
    }
    s.supply(host_logits<float>(logits.data(), request->rows, 16));
    for (const candidate_entry& c : s.candidates()) {
      if (c.outcome == candidate_outcome::replaced || c.outcome == candidate_outcome::remasked) {
        result.rejected.push_back(c);
      }
    }
  }
  EXPECT_EQ(tokens, expected);
  result.forwards = s.report().forwards;
  return result;
}

TEST(self_speculation, does_not_check_what_the_caller_gave) {
  const index_t forwards = drafts_of_four({}).forwards;
  for (index_t i = 1; i < 13; ++i) {
    EXPECT_LE(drafts_of_four({i}).forwards, forwards) << "position " << i;
  }
  EXPECT_LE(drafts_of_four({2, 3, 7, 8, 11}).forwards, forwards);
}

TEST(self_speculation, is_the_part_that_rejects_a_draft) {
  const checked_drafts d = drafts_of_four({}, 3);
  ASSERT_FALSE(d.rejected.empty());
  EXPECT_EQ(d.rejected[0].position, 3);
  EXPECT_EQ(d.rejected[0].outcome, candidate_outcome::replaced);
  for (const candidate_entry& c : d.rejected) {
    EXPECT_EQ(c.part, 1);
  }
}

TEST(self_speculation, is_greedy_decoding_of_the_causal_model) {
  dice d(0x5e1f);
  for (int n = 0; n < 1500; ++n) {
    SCOPED_TRACE(n);
    const speculation s = random_speculation(d);
    const self_speculation checks{.window = d.within(1, 20), .start = d.within(1, 24)};
    switch (n % 5) {
    case 0:
      expect_greedy(methods::linear_spec(0.0F, checks), s);
      break;
    case 1:
      expect_greedy(methods::linear_spec(0.4F, checks), s);
      break;
    case 2:
      expect_greedy(by_name(policy{at_random{}, tokens_per_step{2}, checks}), s, true);
      break;
    case 3:
      expect_greedy(by_name(policy{by_margin{}, checks, threshold{0.2F} && tokens_per_step{3}}), s);
      break;
    default:
      expect_greedy(by_name(policy{left_to_right{}, steps_per_block{4}, checks}), s);
    }
    if (HasFailure()) {
      return;
    }
  }
}

// With drafts of one pass: a pass for the prompt, and two for a round of at least one token.
TEST(self_speculation, takes_two_passes_a_round) {
  dice d(7);
  for (int n = 0; n < 200; ++n) {
    speculation s = random_speculation(d);
    s.engine.right = 0;  // every draft is right
    std::fill(s.editable.begin() + s.shape.prompt_length, s.editable.end(), std::uint8_t{1});
    std::vector<token_id> x = s.tokens;
    const auto policy = methods::linear_spec(0.0F, {.window = 4, .start = 4});
    session decode(policy,
                   {.vocab = s.engine.vocab, .mask_token = s.engine.mask, .causal_attention = true},
                   {x.data(), static_cast<index_t>(x.size())},
                   s.shape);
    while (const auto request = decode.next()) {
      const std::vector<float> logits = s.engine.rows(*request, x);
      decode.supply(host_logits<float>(logits.data(), request->rows, s.engine.vocab));
    }
    EXPECT_LE(decode.report().forwards, 2 * (s.shape.length - s.shape.prompt_length));
  }
}

TEST(self_speculation, is_refused_where_the_engine_has_no_causal_attention) {
  std::vector<token_id> x(4);
  const auto policy = methods::linear_spec();
  try {
    session decode(policy, {.vocab = 8, .mask_token = 7}, {.length = 4, .window = 4});
    FAIL() << "is not refused";
  } catch (const std::invalid_argument& e) {
    EXPECT_EQ(std::string(e.what()),
              "model_info::causal_attention must be true for self_speculation, which has passes "
              "with causal attention, got false");
  }
}

}  // namespace
}  // namespace unmask::testing::self_speculation_test
