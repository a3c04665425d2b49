// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Which of nearly certain tokens is the least certain. tests/cases has what the steps do.

#include <unmask/policy/remask/remdm.hpp>

#include <gtest/gtest.h>

namespace unmask::testing::remdm_loop_test {
namespace {

/// A committed position: its row has `others` beside its best token, in units of that one.
struct committed_token {
  token_id token = 1;
  token_id current = 1;
  float rest = 0.0F;
  [[nodiscard]] float total() const { return 1.0F + rest; }
};

TEST(remdm_loop, orders_tokens_that_are_nearly_certain_by_what_is_left_to_others) {
  const auto score = [](const committed_token& c, float probability) {
    step_info at;
    at.current_probability = probability;
    struct {
      step_info at;
    } const context{at};
    return remdm_loop{}.remask_score(c, context);
  };
  // Their probabilities are the same float.
  EXPECT_LT(score({.rest = 2e-9F}, 1.0F), score({.rest = 1e-9F}, 1.0F));
  EXPECT_FLOAT_EQ(score({.rest = 0.25F}, 0.8F), -0.2F);
  // Of another token than the best one, or of an uncertain one: the probability itself.
  EXPECT_FLOAT_EQ(score({.current = 2, .rest = 9.0F}, 0.75F), -0.25F);
  EXPECT_FLOAT_EQ(score({.rest = 3.0F}, 0.25F), -0.75F);
  EXPECT_FLOAT_EQ(score({.rest = 9.0F}, 0.5F), -0.5F);
}

}  // namespace
}  // namespace unmask::testing::remdm_loop_test
