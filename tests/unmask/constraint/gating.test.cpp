// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/constraint.hpp>
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "support/by_name.hpp"
#include "support/constrained_decode.hpp"
#include "support/dice.hpp"

namespace unmask::testing::gating_test {
namespace {

/// All tokens of the answer differ: with as many tokens as positions, a permutation.
struct all_different {
  static constexpr statistics required = stat::none;

  bool admits(index_t position, token_id token, const auto& context) const {
    const sequence_view& q = *context.at.view;
    for (index_t p = q.prompt_length; p < q.length; ++p) {
      if (p != position && q.tokens[p] == token) {
        return false;
      }
    }
    return true;
  }
};
static_assert(gating<all_different>);

constexpr index_t length = 6;
constexpr model_info model{.vocab = 7, .mask_token = 6};

template <class Policy>
sequence_report decode(const Policy& p,
                       std::uint64_t seed,
                       std::vector<token_id>& tokens,
                       std::span<const constrained_field> fields = {}) {
  tokens.assign(length, 0);
  session s(by_name(p), model, {.length = length, .window = length, .trace = true});
  s.start(0,
          {tokens.data(), length},
          {.length = length, .block_length = length},
          {.constraints = fields});
  const random_rows rows{seed, 4.0, false};
  int pass = 0;
  index_t refused = 0;
  index_t forced = 0;
  while (const auto request = s.next()) {
    std::vector<float> logits(static_cast<std::size_t>(request->rows) * 7);
    for (index_t r = 0; r < request->rows; ++r) {
      // The tokens that stand already are known not to be the answer of other positions.
      auto row = std::span(logits).subspan(static_cast<std::size_t>(r) * 7, 7);
      rows.write(pass, request->segments[0].rows.first + r, row);
      for (const token_id v : tokens) {
        row[static_cast<std::size_t>(v)] = v == 6 ? 0.0F : -9.0F;
      }
    }
    s.supply(host_logits<float>(logits.data(), request->rows, 7));
    for (const candidate_entry& c : s.candidates()) {
      refused += c.outcome == candidate_outcome::refused ? 1 : 0;
      forced += c.outcome == candidate_outcome::forced ? 1 : 0;
    }
    EXPECT_EQ(s.report().refused, refused);
    EXPECT_EQ(s.report().forced, forced);
    ++pass;
    EXPECT_LE(pass, length);
  }
  return s.report();
}

TEST(gating, refuses_tokens_that_do_not_stand_together) {
  int refused = 0;
  int illegal = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::vector<token_id> tokens;
    const sequence_report with =
        decode(policy{by_confidence{}, threshold{0.2F}, all_different{}}, seed, tokens);
    std::vector<int> count(7, 0);
    for (const token_id v : tokens) {
      ++count[static_cast<std::size_t>(v)];
    }
    EXPECT_EQ(count, (std::vector<int>{1, 1, 1, 1, 1, 1, 0}));
    refused += with.refused;
    decode(policy{by_confidence{}, threshold{0.2F}}, seed, tokens);
    std::vector<int> without(7, 0);
    for (const token_id v : tokens) {
      ++without[static_cast<std::size_t>(v)];
    }
    illegal += without != count ? 1 : 0;
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(illegal, 100);
}

struct never {
  static constexpr statistics required = stat::none;
  bool admits(index_t, token_id, const auto&) const { return false; }
};

TEST(gating, that_admits_nothing_commits_the_best_candidate_of_each_step) {
  std::vector<token_id> tokens;
  const sequence_report r = decode(policy{by_confidence{}, tokens_per_step{3}, never{}}, 1, tokens);
  EXPECT_EQ(r.forwards, length);
  EXPECT_EQ(r.forced, length);
  EXPECT_EQ(r.committed, length);
  EXPECT_EQ(r.end, ending::complete);
  EXPECT_EQ(r.refused, 2 + 2 + 2 + 2 + 1);  // all but the best of each step
}

struct always {
  static constexpr statistics required = stat::none;
  bool admits(index_t, token_id, const auto&) const { return true; }
};

TEST(gating, that_admits_everything_changes_nothing) {
  std::vector<token_id> a;
  std::vector<token_id> b;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const sequence_report gated =
        decode(policy{by_confidence{}, tokens_per_step{3}, always{}}, seed, a);
    const sequence_report free = decode(policy{by_confidence{}, tokens_per_step{3}}, seed, b);
    EXPECT_EQ(a, b);
    EXPECT_EQ(gated.forwards, 2);
    EXPECT_EQ(free.forwards, 2);
    EXPECT_EQ(gated.refused + gated.forced, 0);
  }
}

struct by_rank {
  static constexpr statistics required = stat::none;
  struct sequence_state {
    index_t calls = 0;
    index_t first = -1;
  };
  // The best-ranked candidate of each step, which is tested first.
  bool admits(index_t position, token_id, auto& context) const {
    const bool is_first = context.sequence.calls != context.at.step + 1;
    context.sequence.calls = context.at.step + 1;
    context.sequence.first = is_first ? position : context.sequence.first;
    return is_first;
  }
};

TEST(gating, tests_candidates_in_the_order_of_their_rank) {
  std::vector<token_id> a;
  std::vector<token_id> b;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const sequence_report gated =
        decode(policy{by_confidence{}, tokens_per_step{4}, by_rank{}}, seed, a);
    const sequence_report one = decode(policy{by_confidence{}, tokens_per_step{1}}, seed, b);
    EXPECT_EQ(a, b);
    EXPECT_EQ(gated.forwards, one.forwards);
  }
}

/// Words of the letters a to f, a letter a token, with an f in them.
language with_an_f() {
  language l;
  l.words = {"a", "b", "c", "d", "e", "f", ""};
  l.model = model;
  l.bytes = {std::vector<std::uint32_t>(2 * 256, dead_state), {0, 1}, 0};
  for (unsigned char c = 'a'; c <= 'f'; ++c) {
    l.bytes.next[c] = 0;
    l.bytes.next[256 + c] = 1;
  }
  l.bytes.next['f'] = 1;
  return l;
}

/// Allows `only` at the position `offset` of the answer, all tokens elsewhere; and
/// nothing if the sequence is not the one of the test.
struct one_there {
  index_t offset = 0;
  token_id only = 0;
  static constexpr statistics required = stat::none;

  [[nodiscard]] bool allows(token_id token, const step_info& at) const {
    const sequence_view& q = *at.view;
    const bool is_sequence = q.prompt_length == 2 && q.length == 6 && q.block_length == 3 &&
                             q.eos_token == no_token && q.tokens[0] == 4;
    return is_sequence && (at.position - q.prompt_length != offset || token == only);
  }
  void process(auto&, const auto&) const {}
};
static_assert(restricting<one_there>);

TEST(constraint, is_told_what_parts_allow_before_the_first_step) {
  const language l = with_an_f();
  constraint c(l.bytes.view(), l.lifted_to(), {.bytes = 1 << 18});
  const constrained_field field{.language = &c};
  for (index_t offset = 0; offset < 4; ++offset) {
    const policy p{by_confidence{}, tokens_per_step{1}, one_there{offset, 5}};
    session s(p, model, {.length = 6, .window = 4, .trace = true});
    std::vector<token_id> tokens{4, 4, 6, 6, 6, 6};
    s.start(0,
            tokens,
            {.prompt_length = 2, .length = 6, .block_length = 3},
            {.constraints = {&field, 1}});
    ASSERT_EQ(s.committed().size(), 1U);
    EXPECT_EQ(s.committed()[0].position, 2 + offset);
    EXPECT_EQ(s.committed()[0].token, 5);
    EXPECT_EQ(s.committed()[0].step, -1);
    EXPECT_EQ(s.report().filled, 1);
  }
}

TEST(gating, goes_with_constraints) {
  const language l = with_an_f();
  constraint c(l.bytes.view(), l.lifted_to(), {.bytes = 1 << 18});
  const constrained_field field{.language = &c};
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    std::vector<token_id> tokens;
    const sequence_report r = decode(
        policy{by_confidence{}, threshold{0.2F}, all_different{}}, seed, tokens, {&field, 1});
    EXPECT_TRUE(r.constraint_met);
    EXPECT_TRUE(l.has(tokens));
  }
  // Refused positions that are not read again still leave one to commit.
  const constrained_field again{
      .language = &c, .first = 0, .last = 2, .fill = false, .read_again = true};
  std::vector<token_id> tokens;
  const sequence_report r =
      decode(policy{by_confidence{}, tokens_per_step{3}, never{}}, 1, tokens, {&again, 1});
  EXPECT_EQ(r.forwards, length);
  EXPECT_EQ(r.committed, length);
  EXPECT_TRUE(r.constraint_met);
}

}  // namespace
}  // namespace unmask::testing::gating_test
