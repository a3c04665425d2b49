// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The bound on the forward passes of a decode: one a position, and what parts declare.
#include <unmask/core/walk.hpp>
#include <unmask/policy/canvas.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/commit/noise_level.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/remask/edit_committed.hpp>
#include <unmask/policy/remask/remask_below.hpp>

#include <gtest/gtest.h>

namespace unmask::testing::most_forwards_test {
namespace {

/// An answer of ten positions in four blocks.
constexpr sequence_shape shape{.prompt_length = 2, .length = 12, .block_length = 3};

template <class... Parts>
std::int64_t forwards(const Parts&... parts) {
  return most_forwards(policy{parts...}, shape);
}

TEST(most_forwards, is_one_for_each_position) {
  EXPECT_EQ(forwards(by_confidence{}, tokens_per_step{2}), 10);
}

TEST(most_forwards, has_the_passes_in_which_a_commit_rule_may_wait) {
  EXPECT_EQ(forwards(by_confidence{}, timesteps{.steps = 6}), 10 + 5);
  EXPECT_EQ(forwards(by_confidence{}, independent_timesteps{.steps = 6}), 10 + 5);
  EXPECT_EQ(forwards(by_confidence{}, timesteps{.steps = 6} || timesteps{.steps = 9}), 10 + 8);
}

TEST(most_forwards, has_the_passes_that_remask_and_edit) {
  EXPECT_EQ(forwards(by_confidence{}, tokens_per_step{2}, remask_current_below{.allowance = 3}),
            10 + 3);
  EXPECT_EQ(forwards(by_confidence{}, tokens_per_step{2}, edit_committed{}, edited_blocks{2}),
            10 + 4 * 2);
}

TEST(most_forwards, has_the_steps_of_a_canvas) {
  EXPECT_EQ(forwards(by_entropy{}, entropy_bound{0.1F}, canvas{.vocab = 8, .steps = 7}), 10 + 7);
}

}  // namespace
}  // namespace unmask::testing::most_forwards_test
