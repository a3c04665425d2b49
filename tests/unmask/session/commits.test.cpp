// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/host/backend.hpp>
#include <unmask/policy/canvas.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/commit/noise_level.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/remask/edit_committed.hpp>
#include <unmask/policy/remask/remask_below.hpp>
#include <unmask/policy/schedule/pipeline.hpp>
#include <unmask/policy/schedule/schedule.hpp>
#include <unmask/policy/schedule/slow_fast.hpp>
#include <unmask/policy/stop.hpp>
#include <unmask/session.hpp>

#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "support/by_name.hpp"
#include "support/dice.hpp"
#include "support/fake_logits.hpp"
#include "support/requested_rows.hpp"

/// \file
/// committed() and report() agree with the tokens, step by step.
namespace unmask::testing::commits_test {
namespace {

constexpr token_id mask = 11;
constexpr token_id end = 3;

/// Decodes once, and keeps books from committed() alone.
template <class Policy>
void expect_books_that_agree(const Policy& p, std::uint64_t seed, bool stops) {
  dice d(seed);
  sequence_shape g = {.prompt_length = d.within(0, 3)};
  g.length = g.prompt_length + d.within(1, 24);
  g.block_length = d.within(1, 9);
  g.seed = d.bits();
  const model_info model = {.vocab = 12,
                            .mask_token = mask,
                            .eos_token = stops || d.chance(0.7) ? end : no_token,
                            .suppress_mask = !Policy::renoises};
  const fake_model rows{.seed = d.bits(), .vocab = 12, .sharpness = d.real(1.0, 9.0)};
  std::vector<token_id> tokens(static_cast<std::size_t>(g.length), 1);
  session s{by_name(p), model, tokens_view<memory::host>(tokens), g};
  std::vector<token_id> mirror = tokens;
  std::vector<bool> open(tokens.size(), false);
  for (auto k = static_cast<std::size_t>(g.prompt_length); k < open.size(); ++k) {
    open[k] = true;
  }
  index_t committed = 0;
  index_t rewritten = 0;
  for (index_t step = 0; const auto request = s.next(); ++step) {
    const std::vector<float> logits =
        requested_rows(*request, tokens, [&](const auto& x, index_t i) {
          std::vector<float> z(12);
          rows.row<float>(x, i, std::span(z));
          return z;
        });
    const range scored = s.planned().score;
    s.supply(host_logits<float>(logits.data(), request->rows, 12));
    index_t before = -1;
    for (const commit_entry& e : s.committed()) {
      ASSERT_GT(e.position, before) << "step " << step;
      before = e.position;
      ASSERT_EQ(e.step, step);
      ASSERT_LE(e.log_probability, 0.0F);
      ASSERT_TRUE(scored.contains(e.position)) << "step " << step;
      const auto at = static_cast<std::size_t>(e.position);
      ASSERT_EQ(e.token, tokens[at]) << "step " << step;
      const bool opens = !Policy::renoises && e.token == mask;
      (open[at] && !opens ? committed : rewritten) += 1;
      mirror[at] = e.token;
      open[at] = opens;
    }
    const sequence_report& r = s.report();
    ASSERT_EQ(r.committed, committed) << "step " << step;
    ASSERT_EQ(r.rewritten, rewritten) << "step " << step;
    index_t left = 0;
    for (std::size_t k = 0; k < open.size(); ++k) {
      left += open[k] ? 1 : 0;
      const bool filled = open[k] && r.end != ending::running && model.eos_token != no_token;
      if (!Policy::renoises || r.end != ending::running) {
        ASSERT_EQ(tokens[k], filled ? end : open[k] ? mask : mirror[k]) << "step " << step;
      }
    }
    const bool fills = r.end != ending::running && model.eos_token != no_token;
    ASSERT_EQ(r.masked, fills ? 0 : left);
    ASSERT_LT(step, 200);
  }
}

template <class Policy>
void expect_all_agree(const Policy& p, bool stops = false) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    expect_books_that_agree(p, seed, stops);
    ASSERT_FALSE(::testing::Test::HasFailure());
  }
}

TEST(books, agree_with_lookahead) {
  expect_all_agree(policy{by_confidence{}, tokens_per_step{2}, lookahead{.branches = 3}});
  expect_all_agree(
      policy{by_confidence{}, threshold{0.4F}, lookahead{.branches = 3}, block_pipeline{}});
  expect_all_agree(policy{by_margin{},
                          threshold{0.3F},
                          lookahead{.branches = 2},
                          remask_current_below{0.4F, 3},
                          stop_at_eos{}},
                   true);
}

TEST(books, agree_with_second_thoughts_and_stops) {
  expect_all_agree(policy{by_confidence{}, tokens_per_step{3}, remask_below{0.6F}, stop_at_eos{}},
                   true);
  expect_all_agree(policy{by_confidence{}, threshold{0.3F}, remask_below{0.7F}, max_steps{4}});
  expect_all_agree(
      policy{by_confidence{}, tokens_per_step{3}, remask_current_below{0.6F, 5}, stop_at_eos{}},
      true);
  expect_all_agree(policy{by_confidence{},
                          tokens_per_step{3},
                          edit_committed{},
                          edited_blocks{2},
                          stop_sequence<2>{{end, 2}, 1}});
  expect_all_agree(policy{by_confidence{}, timesteps{5}, remask_below{0.6F}, single_block{}});
  expect_all_agree(policy{by_confidence{}, threshold{0.3F}, edit_committed{0.1F}, slow_fast{2}});
}

TEST(books, agree_with_a_canvas) {
  expect_all_agree(policy{by_entropy{}, entropy_bound{0.3F}, canvas{.vocab = 12, .steps = 5}});
}

// A given EOS token that nothing is masked in front of: the canvas is over before its first pass.
TEST(books, agree_with_a_canvas_that_ends_before_its_first_pass) {
  const policy p{by_entropy{}, entropy_bound{0.3F}, canvas{.vocab = 12}, stop_at_eos{}};
  const std::vector<std::uint8_t> editable = {0, 0, 1, 0, 1};
  std::vector<token_id> tokens = {5, end, 7, 8, 9};
  session<decltype(p)> s({.vocab = 12, .mask_token = mask, .eos_token = end},
                         {.sequences = 1, .length = 5, .window = 5});
  s.start(0, p, tokens_view<memory::host>(tokens), {.length = 5}, {editable, {}});
  EXPECT_FALSE(s.next());
  EXPECT_EQ(s.report().end, ending::eos_token);
  EXPECT_EQ(s.report().masked, 0);
  EXPECT_EQ(s.report().committed_prefix, 5);
  EXPECT_EQ(tokens, (std::vector<token_id>{5, end, end, 8, end}));
}

// Masks behind the end of a sequence are those of the longer one before it.
TEST(books, agree_with_a_canvas_in_a_slot_that_a_longer_one_had) {
  const auto p =
      by_name(policy{by_entropy{}, entropy_bound{0.3F}, canvas{.vocab = 12, .steps = 1}});
  session<std::remove_const_t<decltype(p)>> s(
      {.vocab = 12, .mask_token = mask, .suppress_mask = false}, {.length = 6, .window = 6});
  std::vector<token_id> tokens(6);
  s.start(0, p, tokens, {.length = 6});
  tokens.assign(6, 7);
  s.start(0, p, std::span(tokens).first(4), {.length = 4});
  ASSERT_EQ(s.next()->rows, 4);
  const std::vector<float> logits(48);
  s.supply(host_logits<float>(logits.data(), 4, 12));
  EXPECT_EQ(s.report().committed, 4);
  EXPECT_EQ(s.report().masked, 0);
  EXPECT_EQ(tokens, (std::vector<token_id>{0, 0, 0, 0, 7, 7}));
}

}  // namespace
}  // namespace unmask::testing::commits_test
