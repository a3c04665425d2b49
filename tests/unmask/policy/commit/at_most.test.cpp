// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/logits/eos.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/schedule/pipeline.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "support/by_name.hpp"
#include "support/fixed_rows.hpp"

namespace unmask::testing::at_most_test {
namespace {

using positions = std::vector<index_t>;

const std::vector<double> five = {0.95, 0.90, 0.62, 0.90, 0.30};

/// Positions that the first step commits of rows with these confidences.
template <class Ranking, class CommitRule>
positions first_of(const std::vector<double>& confidences, const Ranking& r, const CommitRule& a) {
  return decode_confidences(policy{r, a}, confidences, 0, 1).positions.front();
}
template <class CommitRule>
positions first_of_five(const CommitRule& a) {
  return first_of(five, by_confidence{}, a);
}

TEST(at_most, commits_the_best_ranked_of_what_its_rule_commits) {
  EXPECT_EQ(first_of_five(at_most{1, threshold{0.5F}}), (positions{0}));
  EXPECT_EQ(first_of_five(at_most{2, threshold{0.5F}}), (positions{0, 1})) << "a tie";
  EXPECT_EQ(first_of_five(at_most{3, threshold{0.5F}}), (positions{0, 1, 3}));
  EXPECT_EQ(first_of_five(at_most{9, threshold{0.5F}}), (positions{0, 1, 2, 3}));
}

// The rule rejects every other candidate: those use up the count of tokens_per_step only.
TEST(at_most, counts_what_the_rule_commits_and_not_the_ranks) {
  const std::vector<double> every_other = {0.3, 0.95, 0.3, 0.95, 0.3, 0.95};
  EXPECT_EQ(first_of(every_other, left_to_right{}, at_most{2, threshold{0.9F}}), (positions{1, 3}));
  EXPECT_EQ(first_of(every_other, left_to_right{}, threshold{0.9F} && tokens_per_step{2}),
            (positions{1}));
}

TEST(at_most, of_nothing_leaves_the_progress_guarantee) {
  const history h = decode_confidences(policy{by_confidence{}, at_most{0, threshold{0.5F}}}, five);
  EXPECT_EQ(h.order(), (positions{0, 1, 3, 2, 4}));
  EXPECT_EQ(h.report.forced, 5);
}

TEST(at_most, counts_no_row_that_is_invalid) {
  std::vector<row> table(4, row_with_confidence(0.9));
  table[0][1] = std::numeric_limits<float>::quiet_NaN();
  const history h = decode_rows(policy{by_confidence{}, at_most{2, tokens_per_step{9}}},
                                table,
                                {.block_length = 4},
                                small_model,
                                1);
  EXPECT_EQ(h.positions.front(), (positions{1, 2}));
}

TEST(at_most, counts_no_candidate_that_a_part_rejects) {
  constexpr model_info model = {.vocab = small_vocab, .mask_token = 4, .eos_token = 3};
  const std::vector<row> table = {
      row_with_confidence(0.6), row_with_confidence(0.99, 3), row_with_confidence(0.8)};
  const history h = decode_rows(policy{by_confidence{}, at_most{1, threshold{0.5F}}, eos_gate{}},
                                table,
                                {.block_length = 3},
                                model,
                                1);
  EXPECT_EQ(h.positions.front(), (positions{2}));
}

TEST(at_most, refuses_a_negative_count) {
  std::vector<token_id> tokens(4);
  EXPECT_THAT(
      [&] {
        session(
            policy{by_confidence{}, at_most{-1, threshold{}}}, small_model, tokens, {.length = 4});
      },
      ::testing::ThrowsMessage<std::invalid_argument>("at_most::count must be at least 0, got -1"));
}

/// The candidates of the formula, from a loop over the ranks.
positions
nested(const std::vector<double>& confidences, int all, int some, float t, int ranks, float u) {
  std::vector<index_t> order(confidences.size());
  std::iota(order.begin(), order.end(), 0);
  const auto confidence = [&](index_t p) {
    return confidence_of(row_with_confidence(confidences[static_cast<std::size_t>(p)]));
  };
  std::stable_sort(order.begin(), order.end(), [&](index_t a, index_t b) {
    return confidence(a) > confidence(b);
  });
  positions committed;
  int inner = 0;
  int outer = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const float c = confidence(order[rank]);
    const bool few = c > t && inner++ < some;
    const bool joined = (few || static_cast<int>(rank) < ranks) && c > u;
    if (joined && outer++ < all) {
      committed.push_back(order[rank]);
    }
  }
  if (committed.empty()) {
    committed.push_back(order.front());
  }
  std::sort(committed.begin(), committed.end());
  return committed;
}

TEST(at_most, nests_and_counts_at_each_place_for_itself) {
  std::mt19937 random(1);
  const auto within = [&random](int first, int last) {
    return std::uniform_int_distribution<int>(first, last)(random);
  };
  std::size_t seen = 0;
  for (int k = 0; k < 300; ++k) {
    std::vector<double> confidences(static_cast<std::size_t>(within(1, 40)));
    for (double& c : confidences) {
      c = 0.05 * within(6, 19);
    }
    const int all = within(0, 12);
    const int some = within(0, 6);
    const int ranks = within(0, 10);
    const float t = 0.1F * static_cast<float>(within(3, 9)) + 0.01F;
    const float u = 0.1F * static_cast<float>(within(3, 8)) + 0.01F;
    const positions got = first_of(
        confidences,
        by_confidence{},
        at_most{all, (at_most{some, threshold{t}} || tokens_per_step{ranks}) && threshold{u}});
    ASSERT_EQ(got, nested(confidences, all, some, t, ranks, u)) << k;
    seen += got.size();
  }
  EXPECT_GT(seen, 1000U);
}

// One count for the step, whatever the blocks; each forced block still commits a token.
TEST(at_most, counts_over_all_active_blocks) {
  const auto p = by_name(policy{
      by_confidence{}, at_most{3, threshold{0.1F}}, block_pipeline{.add = 0.0F, .at_once = 3}});
  std::vector<double> confidences;
  for (int i = 0; i < 24; ++i) {
    confidences.push_back(0.3 + 0.02 * ((i * 7) % 24));
  }
  std::vector<row> table;
  for (const double c : confidences) {
    table.push_back(row_with_confidence(c));
  }
  std::vector<token_id> tokens(24);
  session s(p, small_model, tokens, {.length = 24, .block_length = 4});
  index_t forced = 0;
  std::size_t most = 0;
  bool has_several_blocks = false;
  while (const auto request = s.next()) {
    has_several_blocks = has_several_blocks || s.planned().last_block - s.planned().first_block > 1;
    const range rows = request->segments[0].rows;
    const row logits = packed(table, rows);
    s.supply(host_logits<float>(logits.data(), rows.size(), small_vocab));
    const std::size_t chosen =
        s.committed().size() - static_cast<std::size_t>(s.report().forced - forced);
    forced = s.report().forced;
    EXPECT_LE(chosen, 3U);
    most = std::max(most, chosen);
  }
  EXPECT_EQ(s.report().end, ending::complete);
  EXPECT_EQ(most, 3U);
  EXPECT_TRUE(has_several_blocks);
}

}  // namespace
}  // namespace unmask::testing::at_most_test
