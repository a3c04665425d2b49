// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The rules of the canvas by hand: temperatures, noise, and when it is done.
#include <unmask/host/backend.hpp>
#include <unmask/policy/canvas.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/session.hpp>

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "support/dice.hpp"

namespace unmask::testing::canvas_test {
namespace {

/// The parts of a context that the canvas reads.
struct canvas_context {
  canvas::position_state state;
  canvas::sequence_state sequence;
  canvas::step_reduction step_reduction;
  step_info at;
};

/// A row, or a candidate, with a best token and an entropy.
struct best_of_row {
  token_id token;
  float nats = 0.0F;
  [[nodiscard]] best_of_row total() const { return *this; }
  [[nodiscard]] float entropy() const { return nats; }
};

TEST(canvas, cools_from_step_to_step) {
  const canvas part{.vocab = 8, .steps = 4, .coldest = 0.4F, .hottest = 0.8F};
  EXPECT_FLOAT_EQ(part.temperature(0), 0.8F);
  EXPECT_FLOAT_EQ(part.temperature(1), 0.7F);
  EXPECT_FLOAT_EQ(part.temperature(3), 0.5F);
  EXPECT_FLOAT_EQ(part.transform_at({.step = 3})(2.0F, 5), 4.0F);
  EXPECT_EQ(part.draw_temperature(), 1.0F) << "the logits are divided already";
}

TEST(canvas, notices_where_the_best_token_changes) {
  const canvas part{.vocab = 8};
  canvas_context context;
  const auto changes = [&](token_id best) {
    best_of_row row{best, 0.5F};
    part.process(row, context);
    const canvas::step_reduction one = part.reduce(row, context);
    EXPECT_EQ(one.positions, 1);
    EXPECT_EQ(one.entropy, 0.5F);
    EXPECT_EQ(part.conclude(context), best);
    return one.changed;
  };
  EXPECT_EQ(changes(3), 1);
  EXPECT_EQ(changes(3), 0);
  EXPECT_EQ(changes(4), 1);
  canvas::step_reduction sum{1.0F, 2, 3};
  sum.merge({0.5F, 1, 1});
  EXPECT_EQ(sum.entropy, 1.5F);
  EXPECT_EQ(sum.positions, 3);
  EXPECT_EQ(sum.changed, 4);
}

TEST(canvas, is_complete_once_it_is_stable_and_certain) {
  const canvas part{.vocab = 8, .steps = 9, .stable_steps = 2, .certain = 0.25F};
  canvas_context context;
  sequence_view view{};
  const auto stop = [&](index_t step, index_t changed, float entropy) {
    view.step = step;
    context.step_reduction = {entropy, 4, changed};
    return part.stop(view, context);
  };
  EXPECT_EQ(stop(0, 0, 0.0F), ending::running) << "no step was made";
  EXPECT_EQ(stop(1, 0, 0.5F), ending::running);
  EXPECT_EQ(stop(2, 1, 0.5F), ending::running) << "counts again from a change";
  EXPECT_EQ(stop(3, 0, 0.5F), ending::running);
  EXPECT_EQ(stop(4, 0, 1.0F), ending::running) << "a mean of .25 nats is not below it";
  EXPECT_EQ(stop(5, 0, 0.75F), ending::complete);
  EXPECT_EQ(stop(6, 1, 0.75F), ending::running);
  EXPECT_EQ(stop(7, 0, 0.75F), ending::running) << "stable for one step";
  EXPECT_EQ(stop(8, 0, 0.75F), ending::complete);
}

TEST(canvas, ends_after_its_steps) {
  const canvas part{.vocab = 8, .steps = 3};
  canvas_context context;
  context.step_reduction = {9.0F, 1, 1};
  sequence_view view{};
  view.step = 2;
  EXPECT_EQ(part.stop(view, context), ending::running);
  view.step = 3;
  EXPECT_EQ(part.stop(view, context), ending::max_steps);
}

TEST(canvas, is_a_single_block) {
  const canvas part{.vocab = 8};
  canvas_context context;
  sequence_view view{};
  view.prompt_length = 3;
  view.length = 11;
  view.block_length = 2;
  plan next;
  part.schedule(view, next, context);
  EXPECT_EQ(next.score, (range{3, 11}));
  EXPECT_EQ(view.block_length, 8);
  EXPECT_EQ(next.first_block, 0);
  EXPECT_EQ(next.last_block, 1);
}

TEST(canvas, draws_noise_from_all_its_tokens) {
  const canvas part{.vocab = 4};
  canvas_context context;
  std::vector<int> times(4);
  for (context.at.step = 0; context.at.step < 40; ++context.at.step) {
    for (index_t position = 0; position < 100; ++position) {
      const token_id token = part.refill(position, context);
      ASSERT_GE(token, 0);
      ASSERT_LT(token, 4);
      ++times[static_cast<std::size_t>(token)];
    }
  }
  for (const int n : times) {
    EXPECT_NEAR(n, 1000, 140);  // 5 deviations of 27.4
  }
}

TEST(canvas, draws_noise_from_random_numbers_that_no_draw_uses) {
  const canvas part{.vocab = 1000};
  canvas_context context;
  context.at.seed = 1;
  std::vector<token_id> noise;
  for (index_t position = 0; position < 6; ++position) {
    noise.push_back(part.refill(position, context));
  }
  for (token_id token = -3; token < 1000; ++token) {  // those below 0 belong to other parts
    std::vector<token_id> drawn;
    for (index_t position = 0; position < 6; ++position) {
      const std::uint64_t bits = random_bits({.seed = 1, .position = position, .token = token});
      drawn.push_back(static_cast<token_id>((bits * 1000) >> 32U));
    }
    EXPECT_NE(noise, drawn) << token;
  }
}

/// Notes how many tokens a step has changed.
struct change_counter {
  std::vector<index_t>* changed = nullptr;
  static constexpr statistics required = stat::none;
  ending stop(const sequence_view& q, auto&) const {
    changed->push_back(q.changed);
    return ending::running;
  }
};

TEST(canvas, begins_with_noise_and_tells_how_many_tokens_a_step_changes) {
  constexpr index_t vocab = 40;
  std::vector<index_t> told;
  const policy p{
      by_entropy{}, entropy_bound{0.5F}, canvas{.vocab = vocab, .steps = 5}, change_counter{&told}};
  session<std::remove_const_t<decltype(p)>> s(
      {.vocab = vocab, .mask_token = 0, .suppress_mask = false}, {.length = 32, .window = 32});
  std::vector<token_id> tokens(32, 7);
  std::vector<std::uint8_t> editable(32, 1);
  editable[3] = editable[20] = 0;
  s.start(0, p, tokens, {.length = 32, .seed = 4}, {.editable = editable, .suppressed = {}});
  EXPECT_GT(std::set<token_id>(tokens.begin(), tokens.end()).size(), 10U);
  dice d(9);
  std::vector<float> logits(32 * vocab);
  for (index_t step = 0; step < 4; ++step) {
    for (float& z : logits) {
      z = d.real(-9.0F, 9.0F);
    }
    const std::vector<token_id> before = tokens;
    const index_t rows = s.next()->rows;
    s.supply(host_logits<float>(logits.data(), rows, vocab));
    index_t changed = 0;
    for (std::size_t k = 0; k < tokens.size(); ++k) {
      changed += tokens[k] != before[k] ? 1 : 0;
    }
    EXPECT_EQ(told.back(), changed);
    EXPECT_GT(changed, 0);
  }
}

TEST(canvas, is_no_colder_at_its_first_step_than_at_its_last) {
  const sequence_shape g{.length = 4};
  EXPECT_NO_THROW(check_part(canvas{.vocab = 8, .coldest = 0.5F, .hottest = 0.5F}, g));
  EXPECT_THROW(check_part(canvas{.vocab = 8, .coldest = 0.5F, .hottest = 0.49F}, g),
               std::invalid_argument);
}

// Another stream of random numbers would be other decisions.
TEST(canvas, fills_with_the_random_numbers_of_the_position_that_are_for_noise) {
  dice d(5);
  for (int i = 0; i < 200; ++i) {
    canvas_context context;
    context.at.seed = d.bits();
    context.at.sequence = static_cast<std::uint32_t>(d.bits());
    context.at.step = d.within(0, 50);
    const index_t position = d.within(0, 1000);
    const index_t vocab = d.within(1, 200000);
    const std::uint64_t bits = random_bits(
        {context.at.seed, context.at.sequence, context.at.step, position, token_id{-4}});
    EXPECT_EQ((canvas{.vocab = vocab}.refill(position, context)),
              static_cast<token_id>(bits * static_cast<std::uint64_t>(vocab) / 0x100000000U));
  }
}

}  // namespace
}  // namespace unmask::testing::canvas_test
