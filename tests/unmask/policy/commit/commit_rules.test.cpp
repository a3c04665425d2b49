// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/schedule/schedule.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "oracles/naive_rules.hpp"
#include "support/fixed_rows.hpp"

namespace unmask::testing::commit_rules_test {
namespace {

using positions = std::vector<index_t>;
using counts = std::vector<std::size_t>;

// policies.md, L5: positions 10 .. 14.
const std::vector<double> five = {0.95, 0.90, 0.62, 0.90, 0.30};

/// Positions of `five` that the first step commits.
template <class CommitRule>
positions first_of_five(const CommitRule& a) {
  return decode_confidences(policy{by_confidence{}, a}, five, 10, 1).positions.front();
}

TEST(threshold, commits_the_threshold_itself_if_inclusive) {
  // L6. The threshold is the float that the row's confidence is.
  const float exactly = confidence_of(row_with_confidence(0.9));
  ASSERT_NEAR(exactly, 0.9F, 1e-6F);
  EXPECT_EQ(first_of_five(threshold{exactly, true}), (positions{10, 11, 13}));
}

TEST(threshold, does_not_commit_the_threshold_itself) {
  const float exactly = confidence_of(row_with_confidence(0.9));
  EXPECT_EQ(first_of_five(threshold{exactly}), (positions{10}));
}

TEST(threshold, of_one_commits_nothing_and_the_best_is_forced) {
  const history h = decode_confidences(policy{by_confidence{}, threshold{1.0F}}, five);
  EXPECT_EQ(h.counts(), (counts{1, 1, 1, 1, 1}));
  EXPECT_EQ(h.order(), (positions{0, 1, 3, 2, 4}));
  EXPECT_EQ(h.report.forced, 5);
}

TEST(threshold, of_one_commits_a_certain_token_if_inclusive) {
  const row certain = {0.0F, -200.0F, -200.0F, -200.0F, 0.0F};
  const std::vector<row> table = {certain, row_with_confidence(0.9), certain};
  const history h =
      decode_rows(policy{by_confidence{}, threshold{1.0F, true}}, table, {.block_length = 3});
  EXPECT_EQ(h.positions, (std::vector<positions>{{0, 2}, {1}}));
  EXPECT_EQ(h.report.forced, 1);
}

TEST(threshold, of_zero_commits_everything) {
  EXPECT_EQ(first_of_five(threshold{0.0F}).size(), 5U);
  EXPECT_EQ(first_of_five(threshold{0.0F, true}).size(), 5U);
}

TEST(tokens_per_step, commits_the_first_k_ranks) {
  EXPECT_EQ(first_of_five(tokens_per_step{1}), (positions{10}));
  EXPECT_EQ(first_of_five(tokens_per_step{3}), (positions{10, 11, 13}));
  EXPECT_EQ(first_of_five(tokens_per_step{4}), (positions{10, 11, 12, 13}));
  EXPECT_EQ(first_of_five(tokens_per_step{1000}).size(), 5U);
}

TEST(tokens_per_step, of_none_commits_the_best_because_it_must) {
  const history h = decode_confidences(policy{by_confidence{}, tokens_per_step{0}}, five);
  EXPECT_EQ(h.counts(), (counts{1, 1, 1, 1, 1}));
  EXPECT_EQ(h.report.forced, 5);
}

/// The part of a context that schedules read.
struct step_only {
  step_info at;
};

/// Commits of each step when m equal positions are one block.
template <class CommitRule>
counts counts_of(const CommitRule& a, std::size_t m) {
  return decode_confidences(policy{by_confidence{}, a}, std::vector<double>(m, 0.9)).counts();
}

TEST(steps_per_block, gives_the_remainder_to_the_first_steps) {
  EXPECT_EQ(counts_of(steps_per_block{10}, 64), (counts{7, 7, 7, 7, 6, 6, 6, 6, 6, 6}));  // L1
  EXPECT_EQ(counts_of(steps_per_block{8}, 5), (counts{1, 1, 1, 1, 1}));                   // L2
}

TEST(steps_per_block, commits_nothing_when_its_quotas_are_spent) {
  // L2: steps 5, 6 and 7 of 8 for 5 positions have a quota of 0, and so has every later one.
  for (index_t s = 0; s < 12; ++s) {
    SCOPED_TRACE(s);
    const step_only context{{.block_step = s, .block_masked_at_first = 5}};
    EXPECT_EQ(steps_per_block{8}.commits(candidate<stat::none>{}, rank_info{.rank = 0}, context),
              s < 5);
    EXPECT_FALSE(
        steps_per_block{8}.commits(candidate<stat::none>{}, rank_info{.rank = 1}, context));
  }
}

TEST(steps_per_block, commits_every_block_in_its_number_of_steps) {
  for (index_t m = 1; m <= 40; ++m) {
    for (index_t steps = 1; steps <= m; ++steps) {
      SCOPED_TRACE(::testing::Message() << m << " positions in " << steps << " steps");
      const counts n = counts_of(steps_per_block{steps}, static_cast<std::size_t>(m));
      ASSERT_EQ(n.size(), static_cast<std::size_t>(steps));
      ASSERT_EQ(std::accumulate(n.begin(), n.end(), std::size_t{0}), static_cast<std::size_t>(m));
      for (index_t s = 0; s < steps; ++s) {
        ASSERT_EQ(n[static_cast<std::size_t>(s)],
                  static_cast<std::size_t>(naive_quota(m, steps, s)));
      }
    }
  }
}

TEST(steps_per_block, counts_for_each_block_on_its_own) {
  const std::vector<row> table(11, row_with_confidence(0.9));
  const history h =
      decode_rows(policy{by_confidence{}, steps_per_block{2}}, table, {.block_length = 5});
  EXPECT_EQ(h.counts(), (counts{3, 2, 3, 2, 1}));
}

TEST(factor, commits_the_longest_run_that_passes) {
  EXPECT_EQ(first_of_five(factor{0.2F}), (positions{10}));          // L7
  EXPECT_EQ(first_of_five(factor{0.5F}), (positions{10, 11, 13}));  // L7
  EXPECT_EQ(first_of_five(factor{1.0F}), (positions{10, 11, 13}));  // L7
}

TEST(factor, tests_the_last_rank_unless_told_otherwise) {
  const auto first = [](factor f, const std::vector<double>& c) {
    return decode_confidences(policy{by_confidence{}, f}, c, 0, 1).positions.front();
  };
  const factor released{.value = 1.0F, .accept_last = true};
  EXPECT_EQ(first({1.0F}, {0.9, 0.8, 0.1 + 0.2}), (positions{0, 1}));       // L8
  EXPECT_EQ(first(released, {0.9, 0.8, 0.1 + 0.2}), (positions{0, 1, 2}));  // L8
  EXPECT_EQ(first(released, {0.9, 0.3}), (positions{0, 1}));
  EXPECT_EQ(first(released, {0.3}), (positions{0}));
  // The last but one is the first, which is not tested; or passes its own bound, 2/3.
  EXPECT_EQ(first(released, {0.4, 0.3}), (positions{0, 1}));
  EXPECT_EQ(first(released, {0.9, 0.7, 0.3}), (positions{0, 1, 2}));
  // The last but one fails: the last is not reached.
  EXPECT_EQ(first(released, {0.9, 0.5, 0.4}), (positions{0}));
}

TEST(factor, takes_what_reaches_the_bound_before_the_last) {
  struct {
    [[nodiscard]] float confidence() const { return 0.0F; }
  } last;
  const factor rule{.value = 1.0F, .accept_last = true};
  const float bound = 1.0F - math::divide(1.0F, 3.0F);  // of rank 1
  const auto commits = [&](float before) {
    return rule.commits(last, rank_info{.rank = 2, .candidates = 3, .score_before = before});
  };
  EXPECT_TRUE(commits(bound));
  EXPECT_FALSE(commits(std::nextafter(bound, 0.0F)));
}

TEST(factor, commits_the_first_rank_untested) {
  const history h = decode_confidences(policy{by_confidence{}, factor{0.0F}}, {0.3, 0.4, 0.5});
  EXPECT_EQ(h.counts(), (counts{1, 1, 1}));
  EXPECT_EQ(h.report.forced, 0);
}

TEST(entropy_bound, commits_ranks_while_the_earlier_entropies_fit) {
  const std::vector<row> table = {row_with_entropy(0.02),
                                  row_with_entropy(0.05),
                                  row_with_entropy(0.04),
                                  row_with_entropy(0.30),
                                  row_with_entropy(1.2)};  // L12
  const auto first = [&](float bound) {
    const policy p{by_entropy{}, entropy_bound{bound}};
    return decode_rows(p, table, {.block_length = 5}, small_model, 1).positions.front();
  };
  EXPECT_EQ(first(0.0F), (positions{0}));
  EXPECT_EQ(first(0.019F), (positions{0}));
  EXPECT_EQ(first(0.021F), (positions{0, 2}));
  EXPECT_EQ(first(0.1F), (positions{0, 1, 2}));
  EXPECT_EQ(first(0.15F), (positions{0, 1, 2, 3}));
  EXPECT_EQ(first(0.42F), (positions{0, 1, 2, 3, 4}));
}

TEST(entropy_bound, leaves_the_largest_out_of_the_sum_in_any_order) {
  // Left to right: E = 0, .05, .09, .34, .44 (sum less the largest).
  const std::vector<row> table = {row_with_entropy(0.30),
                                  row_with_entropy(0.05),
                                  row_with_entropy(0.04),
                                  row_with_entropy(0.25),
                                  row_with_entropy(0.10)};
  const auto first = [&](float bound) {
    const policy p{left_to_right{}, entropy_bound{bound}};
    return decode_rows(p, table, {.block_length = 5}, small_model, 1).positions.front().size();
  };
  EXPECT_EQ(first(0.049F), 1U);
  EXPECT_EQ(first(0.051F), 2U);
  EXPECT_EQ(first(0.091F), 3U);
  EXPECT_EQ(first(0.339F), 3U);
  EXPECT_EQ(first(0.341F), 4U);
  EXPECT_EQ(first(0.441F), 5U);
}

TEST(entropy_bound, of_zero_takes_certain_tokens_along) {
  const row certain = {0.0F, -200.0F, -200.0F, -200.0F, 0.0F};
  const std::vector<row> table = {certain, row_with_confidence(0.9), certain};
  const policy p{by_entropy{}, entropy_bound{0.0F}};
  // Nothing is lost by the two certain tokens, and the first uncertain one is exempt as the
  // largest.
  EXPECT_EQ(decode_rows(p, table, {.block_length = 3}).counts(), (counts{3}));
}

/// A candidate of which the entropy alone is read.
struct with_entropy {
  float nats = 0.0F;
  [[nodiscard]] float entropy() const { return nats; }
};

TEST(entropy_bound, commits_a_candidate_that_is_ranked_last_as_the_first_only) {
  const with_entropy last{math::infinity()};
  const entropy_bound rule{0.1F};
  EXPECT_TRUE(rule.commits(last, {.rank = 0}));
  EXPECT_FALSE(rule.commits(last, {.rank = 1, .cost_before = 0.05F, .largest_before = 0.05F}));
  EXPECT_FALSE(rule.commits(last, {.rank = 1, .largest_before = math::infinity()}));
}

TEST(entropy_bound, leaves_one_of_two_equal_largest_out_without_rounding) {
  constexpr with_entropy largest{0.11F};
  for (int i = 22; i < 200; ++i) {
    const float sum = static_cast<float>(i) / 100.0F;
    const rank_info s{.rank = 3, .cost_before = sum, .largest_before = largest.nats};
    EXPECT_TRUE(entropy_bound{sum}.commits(largest, s)) << sum;
    EXPECT_FALSE(entropy_bound{std::nextafter(sum, 0.0F)}.commits(largest, s)) << sum;
  }
}

TEST(all_of, commits_what_both_commit) {
  EXPECT_EQ(first_of_five(threshold{0.5F} && tokens_per_step{2}), (positions{10, 11}));
  EXPECT_EQ(first_of_five(tokens_per_step{4} && threshold{0.8F}), (positions{10, 11, 13}));
}

TEST(any_of, commits_what_one_commits) {
  EXPECT_EQ(first_of_five(threshold{0.92F} || tokens_per_step{2}), (positions{10, 11}));
  EXPECT_EQ(first_of_five(tokens_per_step{1} || threshold{0.5F}), (positions{10, 11, 12, 13}));
}

TEST(compositions, nest) {
  EXPECT_EQ(first_of_five((threshold{0.2F} && tokens_per_step{2}) || threshold{0.8F}),
            (positions{10, 11, 13}));
  EXPECT_EQ(first_of_five((threshold{0.99F} || tokens_per_step{4}) && threshold{0.5F}),
            (positions{10, 11, 12, 13}));
}

// A composition gives each part its own statistics and its own state.
struct counting {
  index_t allowed = 0;
  struct position_state {
    index_t asked = 0;
  };
  static constexpr statistics required = stat::none;
  bool commits(const auto&, const rank_info&, auto& context) const {
    return ++context.state.asked > allowed;
  }
};

TEST(compositions, keep_the_state_of_equal_parts_apart) {
  const policy p{left_to_right{}, counting{2} || counting{1}};
  const history h = decode_confidences(p, {0.5, 0.5, 0.5});
  // Step 0: each called once, none commits, position 0 forced. Step 1: the second part commits.
  EXPECT_EQ(h.positions, (std::vector<positions>{{0}, {1, 2}}));
  const policy q{left_to_right{}, counting{2} && counting{1}};
  EXPECT_EQ(decode_confidences(q, {0.5, 0.5, 0.5, 0.5}).positions,
            (std::vector<positions>{{0}, {1}, {2, 3}}));
}

}  // namespace
}  // namespace unmask::testing::commit_rules_test
