// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Budgets of layers: exact sums, largest remainders, windows.

#include <unmask/policy/layers/cache_budget.hpp>
#include <unmask/policy/presets/released/dynamic_dllm.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "support/dice.hpp"

namespace unmask::testing::cache_budget_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

std::vector<index_t> shares(const std::vector<float>& weights, index_t total) {
  std::vector<index_t> out(weights.size(), -1);
  share_out(weights.data(), static_cast<index_t>(weights.size()), total, out.data());
  return out;
}

TEST(ShareOut, InProportion) {
  EXPECT_THAT(shares({0.01F, 0.02F, 0.03F, 0.10F}, 128), ElementsAre(8, 16, 24, 80));
  EXPECT_THAT(shares({1.0F, 1.0F}, 10), ElementsAre(5, 5));
  EXPECT_THAT(shares({0.0F, 3.0F}, 7), ElementsAre(0, 7));
}

TEST(ShareOut, TheRemainderGoesToTheLargestFractionsAndThenToTheFirst) {
  EXPECT_THAT(shares({1.0F, 1.0F, 1.0F}, 8), ElementsAre(3, 3, 2));
  EXPECT_THAT(shares({1.0F, 2.0F}, 4), ElementsAre(1, 3));           // 1.33 and 2.67
  EXPECT_THAT(shares({5.0F, 3.0F, 1.0F}, 5), ElementsAre(3, 2, 0));  // 2.78, 1.67, 0.56
}

TEST(ShareOut, EqualSharesWithoutUsableWeights) {
  const float nan = std::nanf("");
  const float inf = HUGE_VALF;
  EXPECT_THAT(shares({0.0F, 0.0F, 0.0F}, 7), ElementsAre(3, 2, 2));
  EXPECT_THAT(shares({-1.0F, -1.0F}, 6), ElementsAre(3, 3));
  EXPECT_THAT(shares({-1.0F, nan, 4.0F}, 6), ElementsAre(2, 2, 2));
  EXPECT_THAT(shares({nan, 4.0F}, 6), ElementsAre(3, 3));
  EXPECT_THAT(shares({inf, 4.0F}, 6), ElementsAre(3, 3));
  EXPECT_THAT(shares({3.0F, 4.0F}, 0), Each(0));
}

/// A layer at which nothing changed: 1 - cos of equal rows may be below 0 by a rounding.
TEST(ShareOut, AWeightBelowZeroIsZero) {
  EXPECT_THAT(shares({-1e-9F, 1.0F, 3.0F}, 8), ElementsAre(0, 2, 6));
  EXPECT_THAT(shares({4.0F, -1.0F, 2.0F}, 6), ElementsAre(4, 0, 2));
}

/// Shares sum to the total, stay within one of their exact value and follow the order of weights.
TEST(ShareOut, SumsExactlyAndRoundsFairly) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    dice d(seed);
    std::vector<float> weights;
    const index_t count = d.within(1, 80);
    for (index_t i = 0; i < count; ++i) {
      weights.push_back(d.chance(0.2) ? 0.0F : d.real(0.0, d.chance(0.1) ? 100.0 : 1.0));
    }
    const index_t total = d.within(0, 4000);
    const std::vector<index_t> out = shares(weights, total);
    ASSERT_EQ(std::accumulate(out.begin(), out.end(), 0), total) << "seed " << seed;
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double exact = sum > 0 ? total * static_cast<double>(weights[i]) / sum
                                   : static_cast<double>(total) / count;
      EXPECT_LT(std::abs(out[i] - exact), 1.0 + 1e-9);
      for (std::size_t j = 0; j < out.size(); ++j) {
        EXPECT_FALSE(weights[i] > weights[j] && out[i] < out[j]);
      }
    }
  }
}

/// Size 32 in [0, 256), centre 3, 100, 250.
TEST(CacheBudget, WindowsThatKeepTheirSize) {
  cache_budget rule;
  rule.whole_window = true;
  sequence_view q;
  q.length = 256;
  EXPECT_EQ(rule.window_of(3, q), (range{0, 33}));
  EXPECT_EQ(rule.window_of(100, q), (range{84, 117}));
  EXPECT_EQ(rule.window_of(250, q), (range{223, 256}));
  q.prompt_length = 240;
  EXPECT_EQ(rule.window_of(250, q), (range{240, 256}));
}

TEST(CacheBudget, WindowsThatAreCut) {
  const cache_budget rule;
  sequence_view q;
  q.length = 256;
  EXPECT_EQ(rule.window_of(100, q), (range{84, 117}));
  EXPECT_EQ(rule.window_of(3, q), (range{-13, 20}));  // there is nothing left of 0
}

/// Appendix E.1: an eighth of the generated length, which is the default at 256.
TEST(CacheBudget, IsAnEighthOfALongAnswer) {
  EXPECT_EQ(cache_budget_of(256), cache_budget{}.budget);
  EXPECT_EQ(cache_budget_of(256), cache_budget{}.window);
  EXPECT_EQ(cache_budget_of(512), 64);
  EXPECT_EQ(cache_budget_of(1024), 128);
  EXPECT_EQ(cache_budget_of(0), 0);
  EXPECT_EQ(cache_budget_of(1), 1);
  EXPECT_EQ(cache_budget_of(9), 2);
  EXPECT_EQ(cache_budget_of(2147483647), 268435456);
}

/// The paper's rule is the default; the release's preset has the release's.
TEST(CacheBudget, TheScopeOfThePaperAndOfTheRelease) {
  EXPECT_EQ(cache_budget{}.scope, budget_scope::all);
  EXPECT_EQ(released::cache_budget_released().scope, budget_scope::outside_window);
}

TEST(CacheBudget, ChecksItsKnobs) {
  const sequence_shape g{.prompt_length = 0, .length = 8};
  EXPECT_THROW((check_part(basic_cache_budget<>{.budget = -1}, g)), std::invalid_argument);
  EXPECT_THROW((check_part(basic_cache_budget<>{.window = -1}, g)), std::invalid_argument);
  EXPECT_THROW((check_part(basic_cache_budget<>{.full_layers = -1}, g)), std::invalid_argument);
  EXPECT_THROW((check_part(basic_similarity_refresh<>{.share = 1.5}, g)), std::invalid_argument);
  EXPECT_NO_THROW(check_part(cache_budget{}, g));
}

TEST(cache_budget, beyond_what_there_is_computes_everything) {
  struct {
    step_info at = {.step = 2};
  } context;
  constexpr index_t layers = 5;
  const std::vector<float> means = {0.5F, 0.25F, 0.125F, 1.0F, 0.75F};
  for (const index_t budget : {max_length, 0x7fffffff}) {
    for (const sharing share : {sharing::by_change, sharing::released}) {
      cache_budget rule{.budget = budget};
      rule.share = share;
      std::vector<index_t> budgets(layers, -1);
      rule.allocate(means.data(), budgets.data(), layers, context);
      for (const index_t b : budgets) {
        EXPECT_GE(b, 1 << 24);
        EXPECT_LE(b, max_rows);
      }
    }
  }
}

TEST(CacheBudget, CountsTheRankedRowsOfALayer) {
  sequence_view view{};
  view.prompt_length = 3;
  step_info at;
  at.view = &view;
  const no_state nothing;
  const auto counted = [&](const cache_budget& rule, index_t layer, bool refresh) {
    std::vector<index_t> all;
    for (index_t p = 0; p < 8; ++p) {
      layer_row row;
      row.position = p;
      layer_info info;
      info.layer = layer;
      info.refresh = refresh;
      if (rule.counts(row, info, layer_context<cache_budget>{nothing, nothing, {}, at})) {
        all.push_back(p);
      }
    }
    return all;
  };
  EXPECT_THAT(counted({}, 0, false), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(counted({.answer_only = true}, 0, false), ElementsAre(3, 4, 5, 6, 7));
  const cache_budget every_second{.full_layers = 2, .answer_only = true, .refresh_stride = 2};
  EXPECT_THAT(counted(every_second, 1, false), ElementsAre(3, 5, 7));
  EXPECT_THAT(counted(every_second, 2, false), ElementsAre(3, 4, 5, 6, 7));
  EXPECT_THAT(counted(every_second, 2, true), ElementsAre(3, 5, 7));
  EXPECT_THAT(counted({.refresh_stride = 0}, 2, true), ElementsAre());
}

// If the last step committed nothing, `latest` is from an earlier one.
TEST(CacheBudget, AlwaysComputesWhatIsNearTheLastTokens) {
  const auto computed =
      [](const cache_budget& rule, const std::vector<index_t>& last, index_t latest) {
        std::vector<commit_entry> commits(last.size());
        for (std::size_t i = 0; i < last.size(); ++i) {
          commits[i].position = last[i];
        }
        sequence_view view{};
        view.length = 20;
        view.commits = commits.data();
        view.commit_count = static_cast<index_t>(commits.size());
        view.latest = latest;
        step_info at;
        at.view = &view;
        const no_state nothing;
        std::vector<index_t> all;
        for (index_t p = 0; p < 20; ++p) {
          layer_row row;
          row.position = p;
          if (rule.mandatory(row, {}, layer_context<cache_budget>{nothing, nothing, {}, at})) {
            all.push_back(p);
          }
        }
        return all;
      };
  const cache_budget rule{.window = 2};
  EXPECT_THAT(computed(rule, {}, -1), ElementsAre());
  EXPECT_THAT(computed(rule, {}, 9), ElementsAre(8, 9, 10));
  EXPECT_THAT(computed(rule, {4, 9}, 9), ElementsAre(3, 4, 5, 8, 9, 10));
  const cache_budget latest{.window = 2, .latest_only = true};
  EXPECT_THAT(computed(latest, {4, 9}, 9), ElementsAre(8, 9, 10));
  EXPECT_THAT(computed(latest, {}, -1), ElementsAre());
}

TEST(CacheBudget, ComputesAtMostItsBudgetAndWhatIsAlwaysComputed) {
  const sequence_shape shape{.prompt_length = 4, .length = 200};
  layer_info info;
  info.active = 150;
  info.budget = 10;
  info.layer = 1;
  const cache_budget rule{.window = 6};  // 7 positions around each token
  EXPECT_EQ(rule.most(info, shape, {1, 200}), 10 + 7);
  info.commits = 3;
  EXPECT_EQ(rule.most(info, shape, {1, 200}), 10 + 3 * 7);
  const cache_budget latest{.window = 6, .answer_only = true, .latest_only = true};
  EXPECT_EQ(latest.most(info, shape, {1, 200}), 10 + 7 + 3);
  EXPECT_EQ((cache_budget{.window = 6, .full_layers = 2}.most(info, shape, {1, 200})), 150);
  EXPECT_EQ((cache_budget{.window = 6, .full_layers = 1}.most(info, shape, {1, 200})), 31);
  info.active = 12;
  EXPECT_EQ(rule.most(info, shape, {1, 200}), 12);
}

TEST(SimilarityRefresh, ComputesItsShareOfTheAnswerAndThePrompt) {
  sequence_view view{};
  view.prompt_length = 4;
  view.length = 24;
  step_info at;
  at.view = &view;
  const no_state nothing;
  const similarity_refresh rule{.share = 0.26};
  const layer_context<similarity_refresh> context{nothing, nothing, {}, at};
  EXPECT_EQ(rule.quota({}, context), 5);
  EXPECT_EQ(rule.most({}, {.prompt_length = 4, .length = 24}, {1, 24}), 5 + 3);
  EXPECT_EQ(rule.most({}, {.prompt_length = 4, .length = 24}, {9, 24}), 5);
  EXPECT_TRUE(rule.hooks(0, 8));
  layer_row row;
  row.drift = 0.5F;
  row.position = 3;
  EXPECT_EQ(rule.importance(row, {}, context), HUGE_VALF);
  row.position = 4;
  EXPECT_EQ(rule.importance(row, {}, context), 0.5F);
  row.drift = HUGE_VALF;
  EXPECT_EQ(rule.importance(row, {}, context), 1e30F);
}

}  // namespace
}  // namespace unmask::testing::cache_budget_test
