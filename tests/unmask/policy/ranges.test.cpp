// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The ends of the ranges that the check() of a part knows: the last value that is still taken, and
// the next one. Ranges of single knobs are those of core/knob.
#include <unmask/policy/commit/threshold_calibrator.hpp>
#include <unmask/policy/remask/joint_threshold_indel.hpp>
#include <unmask/policy/schedule/rho_eos.hpp>
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

namespace unmask::testing::ranges_test {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr sequence_shape shape{.length = 8, .block_length = 4};
constexpr model_info model{.vocab = 10, .mask_token = 9};

template <class Part>
bool takes(const Part& part, const sequence_shape& g = shape) {
  try {
    check_part(part, g);
    if constexpr (requires { part.check(g, model); }) {
      part.check(g, model);
    }
  } catch (const std::invalid_argument&) {
    return false;
  }
  return true;
}

/// The number next to x: up, or down.
float up(float x) {
  return std::nextafter(x, inf);
}
float down(float x) {
  return std::nextafter(x, -inf);
}

TEST(range, of_positions_may_be_empty) {
  EXPECT_TRUE(takes(at_frontier{.first = 3, .last = 3}));
  EXPECT_FALSE(takes(at_frontier{.first = 3, .last = 2}));
  EXPECT_TRUE(takes(at_frontier{.first = 0, .last = 0}));
  EXPECT_TRUE(takes(probability_of<1>{.tokens = {1}, .first = 3, .last = 3}));
  EXPECT_FALSE(takes(probability_of<1>{.tokens = {1}, .first = 3, .last = 2}));
  EXPECT_TRUE(takes(allowed_tokens<1>{.tokens = {1}, .first = 3, .last = 3}));
  EXPECT_FALSE(takes(allowed_tokens<1>{.tokens = {1}, .first = 3, .last = 2}));
}

TEST(range, of_a_list_has_its_capacity) {
  for (const index_t count : {-1, 0, 1, 2, 3, 4}) {
    const bool fits = count >= 1 && count <= 3;
    EXPECT_EQ(takes(allowed_tokens<3>{.tokens = {1, 2, 3}, .count = count}), fits) << count;
    EXPECT_EQ(takes(stop_sequence<3>{.tokens = {1, 2, 3}, .count = count}), fits) << count;
    EXPECT_EQ(takes(probability_of<3>{.tokens = {1, 2, 3}, .count = count}), fits) << count;
    EXPECT_EQ(takes(block_at_delimiter<3>{.tokens = {1, 2, 3}, .count = count}), fits) << count;
  }
  EXPECT_FALSE(takes(probability_of<3>{.tokens = {1, 2, 1}}));
  EXPECT_TRUE(takes(probability_of<3>{.tokens = {1, 2, 1}, .count = 2}));  // the third is none
  EXPECT_TRUE(takes(stop_sequence<3>{.tokens = {0, no_token, no_token}}));
  EXPECT_FALSE(takes(stop_sequence<3>{.tokens = {0, no_token, 0}}));
  EXPECT_FALSE(takes(stop_sequence<3>{.tokens = {0, no_token, 1}}));
  EXPECT_FALSE(takes(stop_sequence<3>{.tokens = {no_token, 1, 2}}));
  EXPECT_FALSE(takes(stop_sequence<3>{.tokens = {-5, 1, 2}}));
  EXPECT_TRUE(takes(block_at_delimiter<3>{.tokens = {0, no_token, 1}}));
  EXPECT_FALSE(takes(block_at_delimiter<3>{.tokens = {no_token, no_token, no_token}}));
  EXPECT_FALSE(takes(block_at_delimiter<3>{.tokens = {-5, 1, 2}}));
}

TEST(range, of_a_window_is_within_the_answer) {
  const sequence_shape g{.prompt_length = 3, .length = 11, .block_length = 2};
  for (const auto& [share, reach] : {std::pair{0.1F, 2}, {0.5F, 4}, {1.0F, 8}}) {
    const block_at_delimiter<1> part{.tokens = {1}, .share = share, .count = 1};
    EXPECT_EQ(part.reach(g), reach);
    sequence_shape behind = g;
    behind.prompt_length += 100;
    behind.length += 100;
    EXPECT_EQ(part.reach(behind), reach);
    EXPECT_EQ(rho_eos{}.reach(behind), 8);
  }
}

TEST(range, of_a_block_that_is_rewritten_has_its_memory) {
  for (const index_t length : {63, 64, 65}) {
    const sequence_shape g{.length = 80, .block_length = length};
    EXPECT_EQ(takes(joint_threshold_indel{}, g), length <= 64) << length;
  }
}

TEST(range, of_tokens_that_edit_text_are_other_tokens_than_the_mask) {
  for (const token_id v : {-1, 0, 8}) {
    EXPECT_TRUE(takes(joint_threshold_indel{.erase_token = v})) << v;
    EXPECT_TRUE(takes(joint_threshold_indel{.insert_token = v})) << v;
  }
  for (const token_id v : {9, 10}) {
    EXPECT_FALSE(takes(joint_threshold_indel{.erase_token = v})) << v;
    EXPECT_FALSE(takes(joint_threshold_indel{.insert_token = v})) << v;
  }
  EXPECT_FALSE(takes(joint_threshold_indel{.erase_token = 3, .insert_token = 3}));
  const model_info masks_0 = {.vocab = 10, .mask_token = 0};
  EXPECT_NO_THROW(joint_threshold_indel{}.check(shape, masks_0));
  EXPECT_THROW(joint_threshold_indel{.erase_token = 0}.check(shape, masks_0),
               std::invalid_argument);
  EXPECT_THROW(joint_threshold_indel{.insert_token = 0}.check(shape, masks_0),
               std::invalid_argument);
  EXPECT_TRUE(takes(joint_threshold_indel{.erase_token = 3, .insert_token = 4}));
}

TEST(range, of_a_bias_is_finite_or_minus_infinity) {
  for (const float bias : {-inf, -3e38F, 0.0F, std::numeric_limits<float>::max()}) {
    EXPECT_TRUE(takes(logit_bias<1>{{{0, bias}}})) << bias;
  }
  EXPECT_FALSE(takes(logit_bias<1>{{{0, inf}}}));
  EXPECT_FALSE(takes(logit_bias<1>{{{0, std::nanf("")}}}));
  EXPECT_FALSE(takes(logit_bias<1>{{{-1, 1.0F}}}));
}

TEST(range, of_a_canvas_may_be_one_temperature) {
  EXPECT_TRUE(takes(canvas{.vocab = 1, .coldest = 0.5F, .hottest = 0.5F}));
  EXPECT_FALSE(takes(canvas{.vocab = 1, .coldest = 0.5F, .hottest = down(0.5F)}));
  EXPECT_FALSE(takes(canvas{.vocab = 0}));
}

TEST(range, of_a_pool_is_odd) {
  for (const index_t pool : {0, 1, 2, 3, 4, 5}) {
    EXPECT_EQ(takes(key_eviction{.pool = pool}), pool % 2 == 1) << pool;
  }
}

TEST(range, of_skipping_stages_falls) {
  using stages = early_skip;
  for (const index_t count : {-1, 0, 1, max_skip_stages, max_skip_stages + 1}) {
    stages s;
    for (index_t i = 0; i < max_skip_stages; ++i) {
      s.stages[i] = {.depth = 0.5, .keep = 0.5};  // equal ones do
    }
    s.stage_count = count;
    EXPECT_EQ(takes(s), count >= 0 && count <= max_skip_stages) << count;
  }
  const auto one = [](double depth, double keep, double next = 0.0) {
    stages s;
    s.stages[0] = {.depth = depth, .keep = keep};
    s.stages[1] = {.depth = 1.0, .keep = next};
    s.stage_count = 2;
    return takes(s);
  };
  EXPECT_TRUE(one(0.0, 1.0));
  EXPECT_TRUE(one(1.0, 0.0));
  EXPECT_FALSE(one(-1e-9, 1.0));
  EXPECT_FALSE(one(1.0 + 1e-9, 1.0));
  EXPECT_FALSE(one(0.5, 1.0 + 1e-9));
  EXPECT_FALSE(one(0.5, -1e-9));
  EXPECT_TRUE(one(0.5, 0.5, 0.5));
  EXPECT_FALSE(one(0.5, 0.5, 0.5 + 1e-9));
}

TEST(range, of_a_calibrated_threshold) {
  using rule = calibrated_threshold<4>;
  const auto with = [](auto change) {
    rule r;
    r.block_length = 4;
    r.blocks = 2;
    r.ends[0] = 1;
    r.ends[1] = 2;
    change(r);
    return takes(r);
  };
  EXPECT_TRUE(with([](rule&) {}));
  for (const float end : {0.0F, 1.0F}) {
    EXPECT_TRUE(with([&](rule& r) { r.threshold = end; }));
    EXPECT_TRUE(with([&](rule& r) { r.cells[1] = end; }));
    const float outside = end == 0.0F ? down(end) : up(end);
    EXPECT_FALSE(with([&](rule& r) { r.threshold = outside; }));
    EXPECT_FALSE(with([&](rule& r) { r.cells[0] = outside; }));
    EXPECT_FALSE(with([&](rule& r) { r.cells[1] = outside; }));
    EXPECT_TRUE(with([&](rule& r) { r.cells[2] = outside; }));  // of no block
  }
  EXPECT_TRUE(with([](rule& r) { r.cap = up(0.0F); }));
  EXPECT_FALSE(with([](rule& r) { r.cap = 0.0F; }));
  EXPECT_TRUE(with([](rule& r) { r.cap = 1.0F; }));
  EXPECT_FALSE(with([](rule& r) { r.cap = up(1.0F); }));
  EXPECT_TRUE(with([](rule& r) { r.slack = 0.0F; }));
  EXPECT_FALSE(with([](rule& r) { r.slack = down(0.0F); }));
  EXPECT_TRUE(with([](rule& r) { r.slack = down(1.0F); }));
  EXPECT_FALSE(with([](rule& r) { r.slack = 1.0F; }));
  EXPECT_FALSE(with([](rule& r) { r.blocks = -1; }));
  EXPECT_TRUE(with([](rule& r) { r.blocks = 0; }));
  EXPECT_TRUE(with([](rule& r) { r.blocks = 1; }));
  EXPECT_FALSE(with([](rule& r) { r.blocks = 5; }));
  EXPECT_FALSE(with([](rule& r) { r.block_length = 3; }));
  EXPECT_FALSE(with([](rule& r) { r.ends[1] = 1; }));  // a block without a cell
  EXPECT_FALSE(with([](rule& r) { r.ends[1] = 3; }));  // one with two
  const auto by_steps = [&](std::uint16_t end) {
    return with([&](rule& r) {
      r.mode = profile_mode::step_block;
      r.ends[1] = end;
    });
  };
  EXPECT_FALSE(by_steps(1));
  EXPECT_TRUE(by_steps(2));
  EXPECT_TRUE(by_steps(4));
  EXPECT_FALSE(by_steps(5));
  rule of_ones;
  of_ones.block_length = 1;
  of_ones.blocks = 1;
  of_ones.ends[0] = 1;
  EXPECT_TRUE(takes(of_ones, {.length = 8, .block_length = 1}));
  of_ones.block_length = 0;
  EXPECT_THROW(of_ones.check_values(), std::invalid_argument);
}

}  // namespace
}  // namespace unmask::testing::ranges_test
