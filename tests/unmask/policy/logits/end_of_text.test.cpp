// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "oracles/dense_oracle.hpp"

#include <unmask/policy/commit/admission.hpp>
#include <unmask/policy/logits/credit.hpp>
#include <unmask/policy/logits/end_of_text.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/schedule/schedule.hpp>
#include <unmask/policy/stop.hpp>

#include <stdexcept>

namespace unmask::testing {
namespace {

constexpr double absent = -std::numeric_limits<double>::infinity();

dense_rule adds_to_ends(double delta, token_id also, index_t before_offset) {
  return {[=](std::vector<double>& z, const dense_view& at) {
    for (std::size_t v = 0; v < z.size(); ++v) {
      const auto token = static_cast<token_id>(v);
      const bool ends = token == at.model.end_token || token == also;
      if (ends && at.position - at.geometry.prompt < before_offset) {
        z[v] += delta;
      }
    }
  }};
}

TEST(end_of_text, edits_change_rows_as_their_definitions_do) {
  int rows = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    chances c(seed);
    const index_t vocab = c.within(6, 20);
    const token_id also = c.chance(0.5) ? no_token : c.within(0, vocab - 1);
    const end_penalty penalty{.penalty = c.real(-3.0, 5.0), .also = also};
    const no_end_before minimum{.tokens = c.within(0, 15), .also = also};
    const trace_credit<16> credit;
    dense_request q = random_dense_request(c, vocab);
    if (c.chance(0.2)) {
      q.model.end_token = no_token;
    }
    rows += compare_rows(
        policy{witness{}, top_k{c.within(1, 3)}, penalty, minimum, credit},
        {adds_to_ends(-static_cast<double>(penalty.penalty), also, 1000),
         adds_to_ends(absent, also, minimum.tokens), dense_credit(credit.strength, credit.decay, credit.exponent)},
        q);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(rows, 3000);
}

TEST(no_end_before, makes_answers_that_long) {
  int short_without = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    chances c(seed + 1000);
    dense_request q = random_dense_request(c, 8);
    q.model.end_token = (q.model.mask_token + 1) % 8;
    q.logits.love = 0.6;
    q.logits.loved = q.model.end_token;
    const index_t least = c.within(0, q.geometry.length - q.geometry.prompt);
    const auto length_with = [&](const auto& p) {
      std::vector<token_id> last;
      index_t first_end = q.geometry.length;
      each_step(p, q, [&](std::span<const commit_entry> commits, const auto&) {
        for (const commit_entry& e : commits) {
          first_end = e.token == q.model.end_token ? std::min(first_end, e.position) : first_end;
        }
      });
      return first_end - q.geometry.prompt;
    };
    EXPECT_GE(length_with(policy{by_confidence{}, top_k{2}, no_end_before{least}, stop_at_end{}}), least);
    short_without += length_with(policy{by_confidence{}, top_k{2}, stop_at_end{}}) < least ? 1 : 0;
  }
  EXPECT_GT(short_without, 20);
}

// Counts end tokens committed while their left neighbour was open before the step.
struct early_ends {
  index_t prompt = 0;
  token_id end = no_token;
  token_id mask = no_token;
  bool until_first = false;
  bool branches = false;  // with top_k{1}, the first of two commits is the token that the winner placed
  int early = 0;
  bool ended = false;

  void operator()(std::span<const commit_entry> commits, const std::vector<token_id>& before) {
    for (const commit_entry& e : commits) {
      const bool left_open = e.position > prompt && before[static_cast<std::size_t>(e.position - 1)] == mask &&
                             !(branches && commits[0].position == e.position - 1);
      early += e.token == end && left_open && !(until_first && ended) ? 1 : 0;
    }
    for (const commit_entry& e : commits) {
      ended = ended || e.token == end;
    }
  }
};

TEST(hold_end, never_commits_an_end_token_right_of_an_open_position) {
  int without = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    chances c(seed + 2000);
    dense_request q = random_dense_request(c, 8);
    q.model.end_token = (q.model.mask_token + 1) % 8;
    q.logits.love = 0.5;
    q.logits.loved = q.model.end_token;
    const bool until_first = c.chance(0.5);
    const early_ends none{.prompt = q.geometry.prompt, .end = q.model.end_token, .mask = q.model.mask_token,
                          .until_first = until_first};
    const hold_end rule{.until_first = until_first};
    early_ends held = none;
    each_step(policy{by_confidence{}, top_k{4}, rule}, q, held);
    held.ended = false;
    each_step(policy{by_margin{}, confidence_above{0.3F}, rule, trace_credit<8>{}, whole_sequence{}}, q, held);
    held.ended = false;
    each_step(policy{by_entropy{}, entropy_bound{2.0F}, rule, stop_at_end{}}, q, held);
    ASSERT_EQ(held.early, 0) << "seed " << seed;
    early_ends free = none;
    each_step(policy{by_confidence{}, top_k{4}}, q, free);
    without += free.early;
  }
  EXPECT_GT(without, 200);
}

// A branch must not place what a commit may not.
TEST(hold_end, binds_lookahead_too) {
  int without = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    chances c(seed + 3000);
    dense_request q = random_dense_request(c, 8);
    q.model.end_token = (q.model.mask_token + 1) % 8;
    q.logits.love = 0.5;
    q.logits.loved = q.model.end_token;
    q.branches = 3;
    const early_ends none{.prompt = q.geometry.prompt, .end = q.model.end_token, .mask = q.model.mask_token,
                          .branches = true};
    early_ends held = none;
    each_step(policy{by_confidence{}, top_k{1}, hold_end{}, lookahead{.branches = 3}}, q, held);
    ASSERT_EQ(held.early, 0) << "seed " << seed;
    early_ends free = none;
    each_step(policy{by_confidence{}, top_k{1}, lookahead{.branches = 3}}, q, free);
    without += free.early;
  }
  EXPECT_GT(without, 50);
}

// Four positions with tokens 0, end, 1, end; the surer the farther right.
std::vector<index_t> first_commits(const auto& p) {
  const model_info model{.vocab = 5, .mask_token = 4, .end_token = 3};
  std::vector<token_id> text(4, 0);
  session s{p, model, tokens_view<memory::host>(text), layout{.length = 4, .block_length = 4}};
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

TEST(end_last, ranks_end_tokens_behind_all_others) {
  using positions = std::vector<index_t>;
  EXPECT_EQ(first_commits(policy{by_confidence{}, top_k{1}, end_last{}}), (positions{2}));
  EXPECT_EQ(first_commits(policy{by_margin{}, top_k{2}, end_last{}}), (positions{0, 2}));
  EXPECT_EQ(first_commits(policy{by_entropy{}, top_k{3}, end_last{}}), (positions{0, 1, 2}))
      << "a number of tokens may reach them, the lower position first";
  EXPECT_EQ(first_commits(policy{left_to_right{}, top_k{2}, end_last{}}), (positions{0, 2}));
  EXPECT_EQ(first_commits(policy{by_confidence{}, confidence_above{0.1F}, end_last{}}), (positions{0, 2}))
      << "a threshold sees confidence 0";
  EXPECT_EQ(first_commits(policy{by_entropy{}, entropy_bound{9.0F}, end_last{}}), (positions{0, 2}))
      << "and a bound infinite entropy";
  EXPECT_EQ(first_commits(policy{by_confidence{}, top_k{9}, hold_end{}}), (positions{0, 2}))
      << "a held token is out of every number's reach";
  EXPECT_EQ(first_commits(policy{by_confidence{}, top_k{9}, end_last{.also = 1}, hold_end{.also = 0}}),
            (positions{0, 2})) << "the strictest rule decides";
}

// All candidates are held: the forced block takes the lowest.
TEST(end_last, still_ends_when_nothing_else_is_proposed) {
  const model_info model{.vocab = 3, .mask_token = 2, .end_token = 1};
  std::vector<token_id> text(6, 0);
  session s{policy{by_confidence{}, confidence_above{0.5F}, end_last{}, hold_end{}, stop_at_end{}}, model,
            tokens_view<memory::host>(text), layout{.prompt = 1, .length = 6, .block_length = 5}};
  const std::vector<float> logits = {0, 9, 0, 0, 9, 0, 0, 9, 0, 0, 9, 0, 0, 9, 0};
  int steps = 0;
  while (const auto request = s.next()) {
    s.supply(host_logits<float>(logits.data(), request->rows, 3));
    ++steps;
  }
  EXPECT_EQ(steps, 1);
  EXPECT_EQ(s.report().end, ending::end_token);
  EXPECT_EQ(s.report().forced, 1);
  EXPECT_EQ(text, (std::vector<token_id>{0, 1, 1, 1, 1, 1}));
}

TEST(end_of_text, refuses_knobs_outside_their_range) {
  EXPECT_NO_THROW(check_part(end_penalty{}, layout{}));
  EXPECT_THROW(check_part(end_penalty{.penalty = std::nanf("")}, layout{}), std::invalid_argument);
  EXPECT_THROW(check_part(end_penalty{.also = -1}, layout{}), std::invalid_argument);
  EXPECT_NO_THROW(check_part(no_end_before{}, layout{}));
  EXPECT_THROW(check_part(no_end_before{.tokens = -1}, layout{}), std::invalid_argument);
  EXPECT_THROW(check_part(no_end_before{.also = -1}, layout{}), std::invalid_argument);
  EXPECT_NO_THROW(check_part(hold_end{}, layout{}));
  EXPECT_THROW(check_part(hold_end{.also = -1}, layout{}), std::invalid_argument);
  EXPECT_NO_THROW(check_part(end_last{}, layout{}));
  EXPECT_THROW(check_part(end_last{.also = -1}, layout{}), std::invalid_argument);
}

}  // namespace
}  // namespace unmask::testing
