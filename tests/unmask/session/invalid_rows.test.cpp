// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support/invalid_rows.hpp"

#include <unmask/host/backend.hpp>
#include <unmask/policy/canvas.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/logits/eos.hpp>
#include <unmask/policy/logits/temperature.hpp>
#include <unmask/policy/logits/tokens.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/stop.hpp>
#include <unmask/session.hpp>

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "support/by_name.hpp"
#include "support/instruction_sets.hpp"

/// \file
/// Rows without a finite logit among the tokens that may be proposed: the lowest of these.
namespace unmask::testing::invalid_rows_test {
namespace {

/// `lists(v)`: whether the parts of the policy allow token v at the first position of the answer.
void expect_lowest(const auto& composed, const auto& lists, std::uint64_t seed) {
  const auto p = by_name(composed);
  int there = 0;
  for (std::uint64_t k = 0; k < 200; ++k) {
    SCOPED_TRACE(k);
    dice d(mixed(seed, k));
    const invalid_row r = random_invalid_row(d, lists);
    const token_id lowest = lowest_of(r, lists);
    const commit_entry e = decide_one(p, r, on_host{});
    EXPECT_EQ(e.log_probability, -inf);
    EXPECT_TRUE(e.token >= 0 && e.token < r.model.vocab && e.token != r.model.mask_token);
    if (lowest < r.model.vocab) {
      ++there;
      ASSERT_EQ(e.token, lowest);
      for (const host::instruction_set level : instruction_sets()) {
        on_host where;
        where.instruction_set = level;
        ASSERT_EQ(decide_one(p, r, where).token, lowest);
      }
    }
  }
  EXPECT_GT(there, 60);
}

TEST(rows_without_a_finite_logit, commit_the_lowest_token_that_mask_and_request_allow) {
  const auto any = [](token_id) { return true; };
  expect_lowest(policy{by_confidence{}, tokens_per_step{1}}, any, 1);
  expect_lowest(policy{by_margin{}, threshold{0.5F}, sampling{0.7F}}, any, 2);
  expect_lowest(policy{by_entropy{}, tokens_per_step{1}, eos_penalty{1.0F}}, any, 3);
  expect_lowest(policy{by_confidence{}, tokens_per_step{1}, lookahead{.branches = 2}}, any, 4);
}

TEST(rows_without_a_finite_logit, commit_the_lowest_token_that_the_parts_allow) {
  const auto no_end = [](token_id v) { return v != 2; };
  expect_lowest(policy{by_confidence{}, tokens_per_step{1}, min_new_tokens{3}}, no_end, 5);
  const auto no_low = [](token_id v) { return v > 1; };
  expect_lowest(
      policy{by_confidence{}, tokens_per_step{1}, logit_bias<3>{{{0, -inf}, {1, -inf}, {5, 1.0F}}}},
      no_low,
      6);
  const auto both = [](token_id v) { return v > 2; };
  expect_lowest(policy{by_confidence{},
                       tokens_per_step{1},
                       sampling{},
                       min_new_tokens{3},
                       logit_bias<3>{{{0, -inf}, {1, -inf}, {5, 1.0F}}}},
                both,
                7);
  const auto listed = [](token_id v) { return v == 1 || v == 3 || v == 4 || v == 6; };
  expect_lowest(
      policy{by_confidence{}, tokens_per_step{1}, allowed_tokens<4>{{1, 3, 4, 6}}}, listed, 8);
}

// First the mask of the row is ignored, and then the parts; never the suppressed tokens.
TEST(rows_without_a_finite_logit, commit_a_token_if_nothing_is_allowed) {
  const policy p{by_confidence{}, tokens_per_step{1}, allowed_tokens<1>{{3}}};
  invalid_row r{.model = {.vocab = 7, .mask_token = 6, .eos_token = 2},
                .allowed = {1},
                .suppressed = {},
                .logits = std::vector<float>(7, -inf)};
  EXPECT_EQ(decide_one(p, r, on_host{}).token, 3);
  r.suppressed = {3};
  EXPECT_EQ(decide_one(p, r, on_host{}).token, 0);
  r.suppressed = {0, 3};
  EXPECT_EQ(decide_one(p, r, on_host{}).token, 1);
}

/// A canvas of five positions, all of whose rows are `row`, under `mask`.
struct canvas_end {
  std::vector<token_id> tokens;
  std::vector<commit_entry> commits;
  std::vector<candidate_entry> traced;
  sequence_report report;
};
canvas_end decode_canvas(const std::vector<float>& row, std::uint32_t mask, index_t steps) {
  const auto vocab = static_cast<index_t>(row.size());
  const auto p =
      by_name(policy{by_entropy{}, entropy_bound{0.1F}, canvas{.vocab = vocab, .steps = steps}});
  canvas_end out;
  out.tokens.assign(6, 0);
  session<std::remove_const_t<decltype(p)>> s{
      {.vocab = vocab, .mask_token = 0, .suppress_mask = false},
      {.length = 6, .window = 5, .trace = true}};
  s.start(0, p, tokens_view<memory::host>(out.tokens), {.prompt_length = 1, .length = 6});
  while (const auto request = s.next()) {
    std::vector<float> logits;
    for (index_t r = 0; r < request->rows; ++r) {
      logits.insert(logits.end(), row.begin(), row.end());
    }
    row_modifiers<float> modifiers;
    modifiers.allowed = &mask;
    s.supply(host_logits<float>(logits.data(), request->rows, vocab), modifiers);
  }
  out.commits.assign(s.committed().begin(), s.committed().end());
  out.traced.assign(s.candidates().begin(), s.candidates().end());
  out.report = s.report();
  return out;
}

// The bitmask of the rows of a branch is that of the branch, also for a row of nothing.
TEST(rows_without_a_finite_logit, commit_the_lowest_token_of_the_branch_that_won) {
  const auto p = by_name(policy{left_to_right{},
                                tokens_per_step{1},
                                lookahead{.branches = 1, .anchor_competes = false},
                                allowed_tokens<2>{.tokens = {1, 2}, .count = 2}});
  std::vector<token_id> tokens(3);
  session<std::remove_const_t<decltype(p)>> s{{.vocab = 4, .mask_token = 3},
                                              {.length = 3, .window = 3, .branches = 1}};
  s.start(0, p, tokens, {.length = 3});
  const auto supply = [&](std::vector<float> logits, const std::vector<std::uint32_t>& allowed) {
    const auto rows = static_cast<index_t>(allowed.size());
    ASSERT_EQ(s.next()->rows, rows);
    row_modifiers<float> modifiers;
    modifiers.allowed = allowed.data();
    modifiers.allowed_stride = 1;
    s.supply(host_logits<float>{logits.data(), rows, 4}, modifiers);
  };
  supply({0, 4, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0}, {15, 15, 15});
  ASSERT_EQ(s.planned().branches, 1);
  // Rows 1 and 2 of the sequence, and of the branch, whose row 2 does not allow token 1.
  supply({0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, -inf, -inf, 0}, {15, 15, 15, 5});
  EXPECT_EQ(s.planned().winner, 1);
  EXPECT_EQ(tokens, (std::vector<token_id>{1, 1, 2}));
}

TEST(a_canvas, without_valid_rows_ends_with_the_lowest_token_that_is_allowed) {
  const std::vector<float> all_nan(8, std::numeric_limits<float>::quiet_NaN());
  const std::vector<float> none(8, -inf);
  const std::vector<float> fine = {0.0F, 1.0F, 2.0F, 0.0F, 1.0F, 1.0F, 1.0F, 1.0F};
  std::vector<float> infinite = fine;
  infinite[3] = inf;
  struct expectation {
    std::vector<float> row;
    std::uint32_t mask;
    token_id token;
  };
  for (const expectation& e : {expectation{all_nan, 0xffU, 0},
                               expectation{none, 0xffU, 0},
                               expectation{all_nan, 0xb0U, 4},
                               expectation{none, 0x80U, 7},
                               expectation{infinite, 0xffU, 3},
                               expectation{infinite, 0xf6U, 2},
                               expectation{fine, 0U, 0}}) {
    const canvas_end c = decode_canvas(e.row, e.mask, 3);
    const bool valid = e.mask == 0xf6U;
    EXPECT_EQ(c.tokens, (std::vector<token_id>{0, e.token, e.token, e.token, e.token, e.token}));
    EXPECT_EQ(c.report.committed, 5);
    ASSERT_EQ(c.commits.size(), 5U);
    for (const commit_entry& commit : c.commits) {
      EXPECT_EQ(commit.token, e.token);
      EXPECT_EQ(commit.step, c.report.forwards - 1);
      EXPECT_EQ(commit.block_step, c.report.forwards - 1);
      EXPECT_EQ(commit.log_probability == -inf, !valid);
    }
    EXPECT_EQ(c.report.invalid_rows, valid ? 0 : 5 * c.report.forwards);
    for (const candidate_entry& candidate : c.traced) {
      EXPECT_TRUE(candidate.token >= 0 && candidate.token < 8);
      if (!valid) {
        EXPECT_EQ(candidate.token, e.token);
        EXPECT_FALSE(candidate.committed);
      }
    }
  }
}

TEST(a_canvas, that_ends_before_its_first_step_holds_eos_tokens) {
  const auto p =
      by_name(policy{by_entropy{}, entropy_bound{0.1F}, canvas{.vocab = 8}, stop_at_eos{}});
  std::vector<token_id> tokens = {5, 1, 6, 6, 2};
  session<std::remove_const_t<decltype(p)>> s{
      {.vocab = 8, .mask_token = 0, .eos_token = 1, .suppress_mask = false},
      {.length = 5, .window = 5}};
  start_options options;
  const std::array<std::uint8_t, 5> editable = {0, 0, 1, 1, 0};
  options.editable = editable;
  s.start(0, p, tokens_view<memory::host>(tokens), {.length = 5}, options);
  EXPECT_FALSE(s.next().has_value());
  EXPECT_EQ(s.report().end, ending::eos_token);
  EXPECT_EQ(s.report().masked, 0);
  EXPECT_EQ(s.report().committed_prefix, 5);
  EXPECT_EQ(tokens, (std::vector<token_id>{5, 1, 1, 1, 2}));
}

}  // namespace
}  // namespace unmask::testing::invalid_rows_test
