// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/logits/credit.hpp>
#include <unmask/policy/logits/repetition.hpp>
#include <unmask/policy/logits/tokens.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/ranking.hpp>

#include <stdexcept>

#include "oracles/dense_oracle.hpp"
#include "support/by_name.hpp"

namespace unmask::testing::allowed_tokens_test {
namespace {

allowed_tokens<5> random_list(chances& c, index_t vocab) {
  allowed_tokens<5> l;
  for (listed_token& v : l.tokens) {
    v = c.within(0, vocab + 2);  // perhaps not in the vocabulary
  }
  l.count = c.within(1, 5);
  l.first = c.chance(0.5) ? 0 : c.within(0, 6);
  l.last = c.chance(0.5) ? l.last : l.first + c.within(0, 6);
  return l;
}

dense_rule dense(const allowed_tokens<5>& l) {
  return {[l](std::vector<double>& z, const dense_view& at) {
    const index_t offset = at.position - at.geometry.prompt_length;
    if (offset < l.first || offset >= l.last) {
      return;
    }
    for (std::size_t v = 0; v < z.size(); ++v) {
      if (std::find(l.tokens, l.tokens + l.count, static_cast<token_id>(v)) == l.tokens + l.count) {
        z[v] = -std::numeric_limits<double>::infinity();
      }
    }
  }};
}

TEST(allowed_tokens, gives_the_softmax_over_the_list) {
  int rows = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    chances c(seed);
    const index_t vocab = c.within(6, 60);
    const allowed_tokens<5> l = random_list(c, vocab);
    rows += compare_rows(policy{by_margin{}, tokens_per_step{c.within(1, 3)} || reads_entropy, l},
                         {dense(l)},
                         random_dense_request(c, vocab));
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(rows, 3000);
}

TEST(allowed_tokens, gives_it_over_a_vocabulary_of_several_chunks) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    chances c(seed + 500);
    allowed_tokens<5> l = random_list(c, 4999);
    EXPECT_GT(compare_rows(policy{by_margin{}, tokens_per_step{2} || reads_entropy, l},
                           {dense(l)},
                           random_dense_request(c, 5000)),
              0);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

TEST(allowed_tokens, goes_with_other_edits_credit_and_lookahead) {
  int rows = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    chances c(seed + 1000);
    const index_t vocab = c.within(6, 20);
    const allowed_tokens<5> l = random_list(c, vocab - 3);
    const trace_credit<16> credit;
    const dense_rule bias = {[](std::vector<double>& z, const dense_view&) { z[2] -= 1.5; }};
    dense_request q = random_dense_request(c, vocab);
    q.branches = 3;
    rows +=
        compare_rows(policy{by_margin{},
                            tokens_per_step{1} || reads_entropy,
                            logit_bias<1>{{{2, -1.5F}}},
                            l,
                            credit,
                            lookahead{.branches = 3}},
                     {bias, dense(l), dense_credit(credit.strength, credit.decay, credit.exponent)},
                     q);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(rows, 2000);
}

TEST(allowed_tokens, twice_leaves_what_both_list) {
  int rows = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    chances c(seed + 2000);
    allowed_tokens<5> a = random_list(c, 6);
    allowed_tokens<5> b = random_list(c, 6);
    b.tokens[0] = a.tokens[0] = 3;
    dense_request q = random_dense_request(c, 8);
    rows += compare_rows(
        policy{by_margin{}, tokens_per_step{1} || reads_entropy, a, b}, {dense(a), dense(b)}, q);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(rows, 500);
}

// The question "which of these, and how sure?" at one position.
TEST(allowed_tokens, reports_the_log_probability_within_the_list) {
  std::vector<token_id> text = {0};
  session s{by_name(policy{by_confidence{}, tokens_per_step{1}, allowed_tokens<3>{{1, 3, 4}}}),
            model_info{.vocab = 6, .mask_token = 5},
            tokens_view<memory::host>(text),
            sequence_shape{.length = 1}};
  static_cast<void>(s.next());
  const std::vector<float> logits = {9.0F, 1.0F, 8.0F, 3.0F, 2.0F, 0.0F};
  s.supply(host_logits<float>(logits.data(), 1, 6));
  ASSERT_EQ(s.committed().size(), 1U);
  EXPECT_EQ(s.committed()[0].token, 3);
  EXPECT_NEAR(
      s.committed()[0].log_probability, -std::log(1.0 + std::exp(-1.0) + std::exp(-2.0)), 1e-6);
}

// A row in which no listed token is finite is invalid; the progress guarantee still holds.
TEST(allowed_tokens, without_a_finite_token_makes_the_row_invalid) {
  std::vector<token_id> text = {0};
  session s{by_name(policy{
                by_confidence{}, tokens_per_step{1}, allowed_tokens<1>{{1}}, trace_credit<4>{}}),
            model_info{.vocab = 4, .mask_token = 0},
            tokens_view<memory::host>(text),
            sequence_shape{.length = 1}};
  static_cast<void>(s.next());
  const std::vector<float> logits = {9.0F, -std::numeric_limits<float>::infinity(), 8.0F, 3.0F};
  s.supply(host_logits<float>(logits.data(), 1, 4));
  EXPECT_EQ(s.report().invalid_rows, 1);
  EXPECT_EQ(s.report().end, ending::complete);
}

// Token 0 is the model's favourite, and not on the list.
TEST(allowed_tokens, holds_only_the_tokens_it_was_given) {
  std::vector<token_id> text = {0};
  session s{policy{by_confidence{}, tokens_per_step{1}, allowed_tokens<3>{{2, 3}}},
            model_info{.vocab = 5, .mask_token = 4},
            tokens_view<memory::host>(text),
            sequence_shape{.length = 1}};
  static_cast<void>(s.next());
  const std::vector<float> logits = {9.0F, 8.0F, 1.0F, 2.0F, 7.0F};
  s.supply(host_logits<float>(logits.data(), 1, 5));
  EXPECT_EQ(text[0], 3);
  EXPECT_NEAR(s.committed()[0].log_probability, -std::log(1.0 + std::exp(-1.0)), 1e-6);
}

TEST(allowed_tokens, refuses_knobs_outside_their_range) {
  const sequence_shape g{.length = 4};
  EXPECT_THROW((check_part(allowed_tokens<3>{}, g)), std::invalid_argument);
  EXPECT_THROW((check_part(allowed_tokens<3>{.tokens = {no_token, 2}, .count = 1}, g)),
               std::invalid_argument);
  EXPECT_NO_THROW((check_part(allowed_tokens<3>{.tokens = {no_token, 2}}, g)));
  EXPECT_NO_THROW((check_part(allowed_tokens<3>{.tokens = {1, 2}, .count = 2}, g)));
  EXPECT_THROW((check_part(allowed_tokens<2>{.tokens = {1, -2}}, g)), std::invalid_argument);
  EXPECT_THROW((check_part(allowed_tokens<2>{.tokens = {1, 2}, .count = 0}, g)),
               std::invalid_argument);
  EXPECT_THROW((check_part(allowed_tokens<2>{.tokens = {1, 2}, .count = 3}, g)),
               std::invalid_argument);
  EXPECT_THROW((check_part(allowed_tokens<1>{.tokens = {1}, .first = -1}, g)),
               std::invalid_argument);
  EXPECT_THROW((check_part(allowed_tokens<1>{.tokens = {1}, .first = 3, .last = 2}, g)),
               std::invalid_argument);
}

TEST(allowed_tokens, names_the_count_of_a_list_of_no_tokens) {
  try {
    check_part(allowed_tokens<2>{.tokens = {1, 2}, .count = 0}, sequence_shape{.length = 4});
    FAIL();
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(), "allowed_tokens::count must be in [1, Count = 2], got 0");
  }
}

}  // namespace
}  // namespace unmask::testing::allowed_tokens_test
