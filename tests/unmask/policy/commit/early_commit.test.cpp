// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/named/read_policy.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/commit/early_commit.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/schedule/schedule.hpp>

#include "support/dice.hpp"
#include "support/observed_decode.hpp"

namespace unmask::testing::early_commit_test {
namespace {

// Rows of 12 columns whose two best logits differ by gaps[position], the same in each step.
struct scripted {
  std::vector<float> gaps;
  [[nodiscard]] model_info info() const { return {.vocab = 12, .mask_token = 11}; }
  void row(std::span<const token_id>, index_t position, std::span<float> out) const {
    std::fill(out.begin(), out.end(), -4.0F);
    out[static_cast<std::size_t>(position % 7)] = 2.0F;
    const float gap = gaps[static_cast<std::size_t>(position)];
    out[static_cast<std::size_t>(position % 7 + 1)] = 2.0F - gap;
  }
};

// How many tokens each step commits.
template <class Policy>
std::vector<std::size_t> commits_of(const Policy& p, const scripted& model) {
  const auto length = static_cast<index_t>(model.gaps.size());
  std::vector<token_id> tokens(model.gaps.size(), model.info().mask_token);
  session<Policy> s{model.info(), {.sequences = 1, .length = length, .window = length}};
  s.start(0, p, tokens, {.length = length, .block_length = length});
  std::vector<std::size_t> counts;
  while (const auto request = s.next()) {
    supply_one(s, *request, model, tokens);
    counts.push_back(s.committed().size());
  }
  return counts;
}

// The rule from its words: the steps of tokens_per_step(1), until the mean gap of what is masked is
// enough.
std::vector<std::size_t> expected(const scripted& model, const early_commit& rule) {
  std::vector<std::size_t> open(model.gaps.size());
  for (std::size_t i = 0; i < open.size(); ++i) {
    open[i] = i;
  }
  std::vector<std::size_t> counts;
  for (int step = 0; !open.empty(); ++step) {
    double sum = 0.0;
    for (const std::size_t i : open) {
      sum += static_cast<double>(model.gaps[i]);
    }
    const double progress = static_cast<double>(step) / rule.steps;
    const double least = progress < 0.33 ? rule.early : progress < 0.67 ? rule.middle : rule.late;
    if (sum / static_cast<double>(open.size()) >= least) {
      counts.push_back(open.size());
      return counts;
    }
    counts.push_back(1);
    open.erase(open.begin());  // left_to_right
  }
  return counts;
}

TEST(early_commit, commits_all_where_the_mean_gap_reaches_the_threshold_of_its_phase) {
  std::size_t at_once = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    dice c(seed);
    scripted model;
    for (index_t i = c.within(2, 12); i >= 0; --i) {
      model.gaps.push_back(0.25F * static_cast<float>(c.within(0, 23)));  // sums are exact
    }
    const early_commit rule{.steps = c.within(1, 16),
                            .early = 0.5F * static_cast<float>(c.within(0, 10)),
                            .middle = 0.5F * static_cast<float>(c.within(0, 8)),
                            .late = 0.5F * static_cast<float>(c.within(0, 6))};
    const auto counts = commits_of(policy{left_to_right{}, tokens_per_step{1} || rule}, model);
    EXPECT_EQ(counts, expected(model, rule)) << "seed " << seed;
    at_once += counts.back() > 1 ? 1 : 0;
  }
  EXPECT_GT(at_once, 20U);
  EXPECT_LT(at_once, 60U);
}

TEST(early_commit, alone_commits_one_token_a_step_until_then) {
  const scripted model{{1.0F, 1.0F, 1.0F, 6.0F}};
  EXPECT_EQ(commits_of(policy{left_to_right{}, early_commit{.steps = 8, .early = 3.5F}}, model),
            (std::vector<std::size_t>{1, 1, 2}));
}

TEST(early_commit, changes_its_threshold_at_33_and_67_hundredths_of_the_steps) {
  const early_commit rule{.steps = 1000, .early = 3.0F, .middle = 2.0F, .late = 1.0F};
  EXPECT_EQ(rule.threshold(329), 3.0F);
  EXPECT_EQ(rule.threshold(330), 2.0F);
  EXPECT_EQ(rule.threshold(669), 2.0F);
  EXPECT_EQ(rule.threshold(670), 1.0F);
}

TEST(early_commit, is_composed_by_its_name) {
  const named_policy p = read_policy("any_of(steps_per_block(64), early_commit(32, late=1.5))");
  EXPECT_TRUE(p.commit_rule.holds<early_commit>());
  EXPECT_THROW(static_cast<void>(read_policy("early_commit(0)")), policy_text_error);
  EXPECT_THROW(check_part(early_commit{.middle = -1.0F}, sequence_shape{}), std::invalid_argument);
}

}  // namespace
}  // namespace unmask::testing::early_commit_test
