// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// How many positions stay masked, in double precision. tests/cases has what the steps do.

#include <unmask/policy/remask/running_confidence.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace unmask::testing::running_confidence_test {
namespace {

TEST(running_confidence, leaves_masked_what_its_curve_says) {
  constexpr index_t positions = 1 << 23;
  for (const index_t steps : {1, 2, 3, 7, 32, 1000}) {
    for (index_t pass = 0; pass < steps; ++pass) {
      step_info at;
      at.block_step = pass;
      at.block_masked_at_first = positions;
      const double x = double(pass + 1) / double(steps);
      const double least = pass + 1 < steps ? 1e-6 : 0.0;
      const auto left = [&](masked_curve mode) {
        return double(running_confidence{.steps = steps, .mode = mode}.masked_after(at)) /
               double(positions);
      };
      EXPECT_NEAR(left(masked_curve::linear), std::max(1.0 - x, least), 5e-7);
      const double cosine = std::cos(x * std::numbers::pi / 2.0);
      EXPECT_NEAR(
          left(masked_curve::cosine), pass + 1 < steps ? std::max(cosine, least) : 0.0, 5e-7)
          << pass << " of " << steps;
    }
  }
}

}  // namespace
}  // namespace unmask::testing::running_confidence_test
