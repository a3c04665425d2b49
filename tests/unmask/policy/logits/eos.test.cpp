// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/logits/credit.hpp>
#include <unmask/policy/logits/eos.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/schedule/schedule.hpp>
#include <unmask/policy/stop.hpp>

#include <stdexcept>

#include "oracles/dense_oracle.hpp"
#include "support/by_name.hpp"

namespace unmask::testing::eos_test {
namespace {

constexpr double absent = -std::numeric_limits<double>::infinity();

dense_rule adds_to_ends(double delta, token_id also, index_t before_offset) {
  return {[=](std::vector<double>& z, const dense_view& at) {
    for (std::size_t v = 0; v < z.size(); ++v) {
      const auto token = static_cast<token_id>(v);
      const bool ends = token == at.model.eos_token || token == also;
      if (ends && at.position - at.geometry.prompt_length < before_offset) {
        z[v] += delta;
      }
    }
  }};
}

TEST(eos, edits_change_rows_as_their_definitions_do) {
  int rows = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    chances c(seed);
    const index_t vocab = c.within(6, 20);
    const token_id also = c.chance(0.5) ? no_token : c.within(0, vocab - 1);
    const eos_penalty penalty{.penalty = c.real(-3.0, 5.0), .also = also};
    const min_new_tokens minimum{.tokens = c.within(0, 15), .also = also};
    const trace_credit<16> credit;
    dense_request q = random_dense_request(c, vocab);
    if (c.chance(0.2)) {
      q.model.eos_token = no_token;
    }
    rows += compare_rows(policy{by_margin{},
                                tokens_per_step{c.within(1, 3)} || reads_entropy,
                                penalty,
                                minimum,
                                credit},
                         {adds_to_ends(-static_cast<double>(penalty.penalty), also, 1000),
                          adds_to_ends(absent, also, minimum.tokens),
                          dense_credit(credit.strength, credit.decay, credit.exponent)},
                         q);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(rows, 3000);
}

TEST(min_new_tokens, makes_answers_that_long) {
  int short_without = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    chances c(seed + 1000);
    dense_request q = random_dense_request(c, 8);
    q.model.eos_token = (q.model.mask_token + 1) % 8;
    q.logits.love = 0.6;
    q.logits.loved = q.model.eos_token;
    const index_t least = c.within(0, q.geometry.length - q.geometry.prompt_length);
    const auto length_with = [&](const auto& p) {
      std::vector<token_id> last;
      index_t first_end = q.geometry.length;
      each_step(p, q, [&](std::span<const commit_entry> commits, const auto&) {
        for (const commit_entry& e : commits) {
          first_end = e.token == q.model.eos_token ? std::min(first_end, e.position) : first_end;
        }
      });
      return first_end - q.geometry.prompt_length;
    };
    EXPECT_GE(length_with(policy{
                  by_confidence{}, tokens_per_step{2}, min_new_tokens{least}, stop_at_eos{}}),
              least);
    short_without +=
        length_with(policy{by_confidence{}, tokens_per_step{2}, stop_at_eos{}}) < least ? 1 : 0;
  }
  EXPECT_GT(short_without, 20);
}

// Counts EOS tokens committed while their left neighbour was masked before the step.
struct early_ends {
  index_t prompt_length = 0;
  token_id end = no_token;
  token_id mask = no_token;
  bool until_first = false;
  bool branches = false;  // with tokens_per_step{1}, the first of two commits is the token that the
                          // winner placed
  int early = 0;
  bool ended = false;

  void operator()(std::span<const commit_entry> commits, const std::vector<token_id>& before) {
    for (const commit_entry& e : commits) {
      const bool left_open = e.position > prompt_length &&
                             before[static_cast<std::size_t>(e.position - 1)] == mask &&
                             !(branches && commits[0].position == e.position - 1);
      early += e.token == end && left_open && !(until_first && ended) ? 1 : 0;
    }
    for (const commit_entry& e : commits) {
      ended = ended || e.token == end;
    }
  }
};

TEST(eos_gate, never_commits_an_eos_token_right_of_a_masked_position) {
  int without = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    chances c(seed + 2000);
    dense_request q = random_dense_request(c, 8);
    q.model.eos_token = (q.model.mask_token + 1) % 8;
    q.logits.love = 0.5;
    q.logits.loved = q.model.eos_token;
    const bool until_first = c.chance(0.5);
    const early_ends none{.prompt_length = q.geometry.prompt_length,
                          .end = q.model.eos_token,
                          .mask = q.model.mask_token,
                          .until_first = until_first};
    const eos_gate rule{.until_first = until_first};
    early_ends held = none;
    each_step(policy{by_confidence{}, tokens_per_step{4}, rule}, q, held);
    held.ended = false;
    each_step(
        policy{by_margin{}, threshold{0.3F}, rule, trace_credit<8>{}, single_block{}}, q, held);
    held.ended = false;
    each_step(policy{by_entropy{}, entropy_bound{2.0F}, rule, stop_at_eos{}}, q, held);
    ASSERT_EQ(held.early, 0) << "seed " << seed;
    early_ends free = none;
    each_step(policy{by_confidence{}, tokens_per_step{4}}, q, free);
    without += free.early;
  }
  EXPECT_GT(without, 200);
}

// A branch must not place what a commit may not.
TEST(eos_gate, binds_lookahead_too) {
  int without = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    chances c(seed + 3000);
    dense_request q = random_dense_request(c, 8);
    q.model.eos_token = (q.model.mask_token + 1) % 8;
    q.logits.love = 0.5;
    q.logits.loved = q.model.eos_token;
    q.branches = 3;
    const early_ends none{.prompt_length = q.geometry.prompt_length,
                          .end = q.model.eos_token,
                          .mask = q.model.mask_token,
                          .branches = true};
    early_ends held = none;
    each_step(
        policy{by_confidence{}, tokens_per_step{1}, eos_gate{}, lookahead{.branches = 3}}, q, held);
    ASSERT_EQ(held.early, 0) << "seed " << seed;
    early_ends free = none;
    each_step(policy{by_confidence{}, tokens_per_step{1}, lookahead{.branches = 3}}, q, free);
    without += free.early;
  }
  EXPECT_GT(without, 50);
}

// Four positions with tokens 0, end, 1, end; the surer the farther right.
std::vector<index_t> first_commits(const auto& p) {
  const model_info model{.vocab = 5, .mask_token = 4, .eos_token = 3};
  std::vector<token_id> text(4, 0);
  session s{by_name(p),
            model,
            tokens_view<memory::host>(text),
            sequence_shape{.length = 4, .block_length = 4}};
  static_cast<void>(s.next());
  std::vector<float> logits(20, 0.0F);
  logits[0] = 2.0F;
  logits[5 + 3] = 4.0F;
  logits[10 + 1] = 5.0F;
  logits[15 + 3] = 6.0F;
  s.supply(host_logits<float>(logits.data(), 4, 5));
  std::vector<index_t> positions;
  for (const commit_entry& e : s.committed()) {
    positions.push_back(e.position);
    EXPECT_LT(e.log_probability, 0.0F);
    EXPECT_GT(e.log_probability, -1.0F) << "the true one";
  }
  return positions;
}

TEST(eos_last, ranks_eos_tokens_behind_all_others) {
  using positions = std::vector<index_t>;
  EXPECT_EQ(first_commits(policy{by_confidence{}, tokens_per_step{1}, eos_last{}}), (positions{2}));
  EXPECT_EQ(first_commits(policy{by_margin{}, tokens_per_step{2}, eos_last{}}), (positions{0, 2}));
  EXPECT_EQ(first_commits(policy{by_entropy{}, tokens_per_step{3}, eos_last{}}),
            (positions{0, 1, 2}))
      << "a number of tokens may reach them, the lower position first";
  EXPECT_EQ(first_commits(policy{left_to_right{}, tokens_per_step{2}, eos_last{}}),
            (positions{0, 2}));
  EXPECT_EQ(first_commits(policy{by_confidence{}, threshold{0.1F}, eos_last{}}), (positions{0, 2}))
      << "a threshold sees confidence 0";
  EXPECT_EQ(first_commits(policy{by_entropy{}, entropy_bound{9.0F}, eos_last{}}), (positions{0, 2}))
      << "and a bound infinite entropy";
  EXPECT_EQ(first_commits(policy{by_confidence{}, tokens_per_step{9}, eos_gate{}}),
            (positions{0, 2}))
      << "a held token is out of every number's reach";
  EXPECT_EQ(first_commits(policy{
                by_confidence{}, tokens_per_step{9}, eos_last{.also = 1}, eos_gate{.also = 0}}),
            (positions{0, 2}))
      << "the strictest rule decides";
}

// All candidates are held: the forced block takes the lowest.
TEST(eos_last, still_ends_when_nothing_else_is_proposed) {
  const model_info model{.vocab = 3, .mask_token = 2, .eos_token = 1};
  std::vector<token_id> text(6, 0);
  session s{
      by_name(policy{by_confidence{}, threshold{0.5F}, eos_last{}, eos_gate{}, stop_at_eos{}}),
      model,
      tokens_view<memory::host>(text),
      sequence_shape{.prompt_length = 1, .length = 6, .block_length = 5}};
  const std::vector<float> logits = {0, 9, 0, 0, 9, 0, 0, 9, 0, 0, 9, 0, 0, 9, 0};
  int steps = 0;
  while (const auto request = s.next()) {
    s.supply(host_logits<float>(logits.data(), request->rows, 3));
    ++steps;
  }
  EXPECT_EQ(steps, 1);
  EXPECT_EQ(s.report().end, ending::eos_token);
  EXPECT_EQ(s.report().forced, 1);
  EXPECT_EQ(text, (std::vector<token_id>{0, 1, 1, 1, 1, 1}));
}

TEST(eos, refuses_knobs_outside_their_range) {
  EXPECT_NO_THROW(check_part(eos_penalty{}, sequence_shape{}));
  EXPECT_THROW(check_part(eos_penalty{.penalty = std::nanf("")}, sequence_shape{}),
               std::invalid_argument);
  EXPECT_THROW(check_part(eos_penalty{.also = -1}, sequence_shape{}), std::invalid_argument);
  EXPECT_NO_THROW(check_part(min_new_tokens{}, sequence_shape{}));
  EXPECT_THROW(check_part(min_new_tokens{.tokens = -1}, sequence_shape{}), std::invalid_argument);
  EXPECT_THROW(check_part(min_new_tokens{.also = -1}, sequence_shape{}), std::invalid_argument);
  EXPECT_NO_THROW(check_part(eos_gate{}, sequence_shape{}));
  EXPECT_THROW(check_part(eos_gate{.also = -1}, sequence_shape{}), std::invalid_argument);
  EXPECT_NO_THROW(check_part(eos_last{}, sequence_shape{}));
  EXPECT_THROW(check_part(eos_last{.also = -1}, sequence_shape{}), std::invalid_argument);
}

}  // namespace
}  // namespace unmask::testing::eos_test
