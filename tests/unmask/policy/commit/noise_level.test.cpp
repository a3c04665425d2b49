// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/policy/commit/noise_level.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/schedule/schedule.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "oracles/naive_rules.hpp"
#include "support/fixed_rows.hpp"

namespace unmask::testing::noise_level_test {
namespace {

using counts = std::vector<std::size_t>;

/// The part of a context that a schedule of steps reads.
struct step_only {
  step_info at;
};

TEST(timesteps, follow_the_noise_level) {
  const auto whole = [](timesteps t) {
    const std::vector<row> table(32, row_with_confidence(0.9));
    return decode_rows(policy{by_confidence{}, t, single_block{}}, table, {}).counts();
  };
  EXPECT_EQ(whole({.steps = 4}), (counts{7, 8, 8, 9}));              // L4
  EXPECT_EQ(whole({.steps = 8}), (counts{3, 4, 4, 4, 4, 4, 4, 5}));  // L4
}

TEST(timesteps, have_the_published_fractions) {
  const double expected[] = {0.24975, 0.332889, 0.499001, 1.0};  // L3
  for (index_t j = 0; j < 4; ++j) {
    SCOPED_TRACE(j);
    EXPECT_NEAR(naive_fraction(4, 1e-3, j), expected[j], 1e-6);
    // Number of candidates that the rule commits of a million.
    const step_only context{{.step = j}};
    const timesteps t{.steps = 4};
    index_t committed = 0;
    for (index_t rank = 0; rank < 1'000'000; rank += 10) {
      committed +=
          t.commits(candidate<stat::none>{}, {.rank = rank, .candidates = 1'000'000}, context) ? 10
                                                                                               : 0;
    }
    EXPECT_NEAR(committed, expected[j] * 1e6, 11.0);
  }
}

TEST(timesteps, have_the_noise_levels_of_a_linear_space_in_float) {
  // As torch.linspace(1, epsilon, steps + 1): its first half from the first value, the other from
  // the last, each rounded once.
  constexpr float epsilon = 1e-3F;
  for (index_t steps = 1; steps <= 64; ++steps) {
    const float width = (epsilon - 1.0F) / static_cast<float>(steps);
    std::vector<float> level;
    for (index_t k = 0; k <= steps; ++k) {
      level.push_back(k < (steps + 1) / 2
                          ? std::fma(width, static_cast<float>(k), 1.0F)
                          : std::fma(-width, static_cast<float>(steps - k), epsilon));
    }
    for (std::size_t j = 0; j + 1 < static_cast<std::size_t>(steps); ++j) {
      EXPECT_EQ(detail::noise_share(static_cast<index_t>(j), steps, epsilon),
                1.0F - level[j + 1] / level[j])
          << j << " of " << steps;
    }
  }
}

TEST(timesteps, may_commit_nothing_in_a_step) {
  const std::vector<row> table(3, row_with_confidence(0.9));
  const history h =
      decode_rows(policy{by_confidence{}, timesteps{.steps = 6}}, table, {.block_length = 3});
  EXPECT_EQ(h.counts(), (counts{0, 0, 0, 0, 1, 2}));
  EXPECT_EQ(h.report.forced, 0);
}

TEST(timesteps, commit_everything_from_the_last_step_on) {
  const std::vector<row> table(9, row_with_confidence(0.9));
  const history h =
      decode_rows(policy{by_confidence{}, timesteps{.steps = 1}}, table, {.block_length = 4});
  EXPECT_EQ(h.counts(), (counts{4, 4, 1}));
}

TEST(independent_timesteps, commit_each_position_with_the_share_as_its_probability) {
  const std::vector<row> table(10, row_with_confidence(0.9));
  std::vector<int> times(10);
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const history h =
        decode_rows(policy{by_confidence{}, independent_timesteps{.steps = 4}, single_block{}},
                    table,
                    {.seed = seed},
                    small_model,
                    1);
    for (const index_t p : h.positions.front()) {
      ++times[static_cast<std::size_t>(p)];
    }
  }
  // Binomial with p = .24975: mean 499.5, deviation 19.4.
  for (std::size_t p = 0; p < times.size(); ++p) {
    SCOPED_TRACE(p);
    EXPECT_NEAR(times[p], 499.5, 97.0);
  }
}

TEST(independent_timesteps, commit_everything_in_the_last_step) {
  const std::vector<row> table(20, row_with_confidence(0.9));
  const history h =
      decode_rows(policy{by_confidence{}, independent_timesteps{.steps = 3}, single_block{}},
                  table,
                  {.seed = 5});
  EXPECT_EQ(h.report.forwards, 3);
  EXPECT_EQ(h.report.committed, 20);
  EXPECT_EQ(h.report.forced, 0);
}

}  // namespace
}  // namespace unmask::testing::noise_level_test
