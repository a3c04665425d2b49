// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Which tokens of a pass that hides some are replaced. tests/cases has what the steps do.

#include <unmask/policy/remask/core.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace unmask::testing::core_test {
namespace {

/// A position whose token was hidden, and the best one without it.
struct reconsidered {
  token_id token = 1;
  token_id current = 2;
  float value = 0.0F;
  [[nodiscard]] float confidence() const { return value; }
};

TEST(core, replaces_by_another_token_of_a_confidence_of_at_least_three_tenths) {
  const auto score = [](const reconsidered& c) {
    step_info at;
    at.current_probability = 0.25F;
    struct {
      step_info at;
    } const context{at};
    return core{}.reconsider_score(c, context);
  };
  EXPECT_EQ(score({.value = 0.3F}), 0.25F);
  EXPECT_TRUE(std::isnan(score({.value = std::nextafter(0.3F, 0.0F)})));
  EXPECT_TRUE(std::isnan(score({.current = 1, .value = 0.9F})));
}

}  // namespace
}  // namespace unmask::testing::core_test
