// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The rules of the canvas by hand: temperatures, noise, and when it is done.
#include <unmask/policy/canvas.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace unmask::testing {
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
  EXPECT_FLOAT_EQ(part.transform(2.0F, 5, {.step = 3}), 4.0F);
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

}  // namespace
}  // namespace unmask::testing
