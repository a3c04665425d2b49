// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/logits/credit.hpp>
#include <unmask/policy/logits/temperature.hpp>
#include <unmask/policy/logits/tokens.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/ranking.hpp>

#include <stdexcept>

#include "oracles/dense_oracle.hpp"
#include "support/by_name.hpp"

namespace unmask::testing::bias_test {
namespace {

constexpr float ban = -std::numeric_limits<float>::infinity();

logit_bias<6> random_bias(chances& c, index_t vocab) {
  logit_bias<6> b;
  for (token_bias& pair : b.pairs) {
    pair.token =
        c.chance(0.1) ? no_token : c.within(0, vocab + 3);  // perhaps not in the vocabulary
    pair.bias = c.chance(0.15) ? ban : c.real(-6.0, 6.0);
  }
  return b;
}

dense_rule dense(const logit_bias<6>& b) {
  return {[b](std::vector<double>& z, const dense_view&) {
    for (const token_bias& pair : b.pairs) {
      if (static_cast<std::size_t>(pair.token) < z.size()) {
        z[static_cast<std::size_t>(pair.token)] += static_cast<double>(pair.bias);
      }
    }
  }};
}

TEST(logit_bias, edits_rows_as_dense_addition_does) {
  int rows = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    chances c(seed);
    const index_t vocab = c.within(10, 70);
    const logit_bias<6> b = random_bias(c, vocab);
    rows += compare_rows(policy{by_margin{}, tokens_per_step{c.within(1, 3)} || reads_entropy, b},
                         {dense(b)},
                         random_dense_request(c, vocab));
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(rows, 3000);
}

TEST(logit_bias, edits_rows_of_several_chunks) {
  int rows = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    chances c(seed);
    const logit_bias<6> b = random_bias(c, 5000);
    rows += compare_rows(policy{by_margin{}, tokens_per_step{2} || reads_entropy, b},
                         {dense(b)},
                         random_dense_request(c, 5000));
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(rows, 100);
}

TEST(logit_bias, goes_with_credit_in_written_order) {
  int rows = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    chances c(seed + 1000);
    const index_t vocab = c.within(10, 70);
    const logit_bias<6> b = random_bias(c, vocab);
    const trace_credit<32> credit;
    const dense_rule earns = dense_credit(credit.strength, credit.decay, credit.exponent);
    const dense_request q = random_dense_request(c, vocab);
    rows += compare_rows(
        policy{by_margin{}, tokens_per_step{1} || reads_entropy, b, credit}, {dense(b), earns}, q);
    rows += compare_rows(policy{by_margin{}, tokens_per_step{1} || reads_entropy, credit, b},
                         {dense_credit(credit.strength, credit.decay, credit.exponent), dense(b)},
                         q);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(rows, 4000);
}

TEST(logit_bias, goes_with_lookahead_and_credit) {
  int rows = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    chances c(seed + 2000);
    const index_t vocab = c.within(10, 70);
    const logit_bias<6> b = random_bias(c, vocab);
    const trace_credit<32> credit;
    dense_request q = random_dense_request(c, vocab);
    q.branches = 3;
    rows += compare_rows(
        policy{
            by_margin{}, tokens_per_step{1} || reads_entropy, b, credit, lookahead{.branches = 3}},
        {dense(b), dense_credit(credit.strength, credit.decay, credit.exponent)},
        q);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(rows, 1000);
}

// The bias is in the units of the row as it was read.
TEST(logit_bias, comes_after_the_temperature) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    chances c(seed + 3000);
    const logit_bias<6> b = random_bias(c, 40);
    const dense_rule heat = {[](std::vector<double>& z, const dense_view&) {
      for (double& x : z) {
        x *= 2.0;
      }
    }};
    compare_rows(policy{b, by_margin{}, tokens_per_step{2} || reads_entropy, temperature{0.5F}},
                 {heat, dense(b)},
                 random_dense_request(c, 40));
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

TEST(logit_bias, of_minus_infinity_bans_a_token_for_good) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    chances c(seed + 4000);
    dense_request q = random_dense_request(c, 12);
    q.suppressed.clear();
    const token_id banned = c.within(0, 11);
    if (banned == q.model.mask_token) {
      continue;
    }
    q.logits.love = 0.7;
    q.logits.loved = banned;
    std::vector<token_id> text(static_cast<std::size_t>(q.geometry.length), 0);
    session s{by_name(policy{by_entropy{}, tokens_per_step{2}, logit_bias<1>{{{banned, ban}}}}),
              q.model,
              tokens_view<memory::host>(text),
              q.geometry};
    while (const auto request = s.next()) {
      std::vector<float> logits;
      for (index_t r = request->segments[0].rows.first; r < request->segments[0].rows.last; ++r) {
        const std::vector<float> z = q.logits.row(text, r);
        logits.insert(logits.end(), z.begin(), z.end());
      }
      s.supply(host_logits<float>(logits.data(), request->rows, 12));
      for (const commit_entry& e : s.committed()) {
        ASSERT_NE(e.token, banned);
      }
    }
  }
}

TEST(logit_bias, refuses_biases_that_are_no_numbers) {
  const sequence_shape g{.length = 4};
  EXPECT_NO_THROW((check_part(logit_bias<2>{{{1, ban}, {0, 2.0F}}}, g)));
  EXPECT_NO_THROW((check_part(logit_bias<4>{{{1, 1.0F}}}, g)));
  EXPECT_THROW((check_part(logit_bias<1>{{{-1, 1.0F}}}, g)), std::invalid_argument);
  EXPECT_THROW((check_part(logit_bias<1>{{{1, -ban}}}, g)), std::invalid_argument);
  EXPECT_THROW((check_part(logit_bias<1>{{{1, std::nanf("")}}}, g)), std::invalid_argument);
}

TEST(logit_bias, takes_its_pairs_from_lists) {
  const double tokens[] = {7, 3, 9};
  const double biases[] = {0.5, -1, 2};
  logit_bias<4> part;
  logit_bias<4>::take_tokens(part, tokens, 3);
  logit_bias<4>::take_biases(part, biases, 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(part.pairs[i].token, tokens[i]);
    EXPECT_EQ(part.pairs[i].bias, biases[i]);
  }
}

}  // namespace
}  // namespace unmask::testing::bias_test
