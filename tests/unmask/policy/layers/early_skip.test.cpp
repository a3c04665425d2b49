// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Importances of early skipping, beside the formula; which layers skip, and how many stay.

#include <unmask/policy/presets/released/es_dllm.hpp>
#include <unmask/stats/drift.hpp>
#include <unmask/step/choose.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "support/dice.hpp"

namespace unmask::testing::early_skip_test {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;

struct line {
  std::vector<float> confidence;
  std::vector<float> drift;
  index_t first_masked = -1;
  index_t committed = -1;
};

/// The importances of positions 0, 1, ...
std::vector<float> importances(const early_skip& rule, const line& x) {
  layer_info info;
  early_skip::layer_reduction best;
  const no_state nothing;
  const step_info at;
  std::vector<layer_row> rows;
  for (std::size_t i = 0; i < x.drift.size(); ++i) {
    layer_row row;
    row.position = static_cast<index_t>(i);
    row.first_masked = row.position == x.first_masked;
    row.committed = row.position == x.committed;
    row.drift = x.drift[i];
    info.largest = std::max(info.largest, row.drift);
    rows.push_back(row);
  }
  const auto context = [&](std::size_t i, const auto& use) {
    early_skip::position_state state;
    state.confidence = x.confidence[i];
    return use(layer_context<early_skip>{state, nothing, best, at});
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    best.merge(context(i, [&](const auto& o) { return rule.look(rows[i], info, o); }));
  }
  std::vector<float> out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    out.push_back(context(i, [&](const auto& o) { return rule.importance(rows[i], info, o); }));
  }
  return out;
}

const line eight{{0.0F, 0.0F, 0.2F, 0.7F, 0.1F, 0.6F, 0.3F, 0.05F},
                 {0.0F, 0.9F, 0.1F, 0.05F, 0.4F, 0.02F, 0.8F, 0.3F},
                 2,
                 1};

TEST(EarlySkip, TheReleasedImportances) {
  const std::vector<float> scores = importances(released::early_skip_released(), eight);
  const std::vector<float> expected{0.0F, 3.45F, 5.15F, 2.375F, 0.25F, 2.31F, 0.55F, 0.175F};
  for (std::size_t i = 0; i < scores.size(); ++i) {
    EXPECT_NEAR(scores[i], expected[i], 1e-6F) << i;
  }
  std::vector<std::uint32_t> keys;
  for (const float s : scores) {
    keys.push_back(step::importance_key(s));
  }
  std::vector<index_t> kept(8);
  kept.resize(static_cast<std::size_t>(step::choose(keys.data(), 8, 4, kept.data())));
  EXPECT_THAT(kept, ElementsAre(1, 2, 3, 5));
}

TEST(EarlySkip, ThePaperHasNoBonus) {
  const std::vector<float> scores = importances(early_skip{}, eight);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    EXPECT_NEAR(scores[i], 0.5F * eight.confidence[i] + 0.5F * eight.drift[i], 1e-7F);
  }
}

TEST(EarlySkip, TheCapDividesByTheLargestOverOne) {
  line x = eight;
  x.drift[6] = 4.0F;
  early_skip capped;
  capped.cap = true;
  capped.weight = 0.0F;
  EXPECT_NEAR(importances(capped, x)[6], 1.0F, 1e-7F);
  EXPECT_NEAR(importances(capped, x)[1], 0.225F, 1e-7F);
  EXPECT_NEAR(importances(capped, eight)[1], 0.9F, 1e-7F);  // nothing is over 1
}

TEST(EarlySkip, BrokenRowsRankHighAndStayWithinTheQuota) {
  line x = eight;
  x.drift[4] = HUGE_VALF;
  x.drift[7] = std::nanf("");
  for (const bool cap : {false, true}) {
    early_skip rule;
    rule.cap = cap;
    const std::vector<float> scores = importances(rule, x);
    EXPECT_TRUE(std::isfinite(scores[4]) && std::isnan(scores[7]));
    EXPECT_GT(scores[4], scores[3]);
    EXPECT_GT(step::importance_key(scores[7]), step::always_key);
    EXPECT_LT(step::importance_key(scores[7]), step::importance_key(scores[4]));
  }
}

TEST(EarlySkip, BonusesFollowTheWeight) {
  early_skip rule = released::early_skip_released(0.0F);
  EXPECT_NEAR(importances(rule, eight)[3], 0.05F, 1e-7F);  // confidence has no weight, no bonus
  rule.weight = 1.0F;
  EXPECT_NEAR(importances(rule, eight)[1], 0.0F, 1e-7F);  // change has none
}

/// The second term, from the formula, in double precision.
TEST(EarlySkip, MeasuresTheChangeInUnitsOfTheRow) {
  for (const index_t width : {1, 5, 64, 1000}) {
    dice d(static_cast<std::uint64_t>(width));
    std::vector<float> h;
    std::vector<float> g;
    double distance = 0.0;
    double square = 0.0;
    for (index_t j = 0; j < width; ++j) {
      h.push_back(d.real(-2.0, 2.0));
      g.push_back(d.real(-2.0, 2.0));
      distance += std::fabs(static_cast<double>(h.back()) - g.back());
      square += static_cast<double>(g.back()) * g.back();
    }
    const double expected = distance / (std::sqrt(width) * std::sqrt(square));
    const float measured =
        early_skip{}.measure(canonical::drift_of<early_skip::measures>(h.data(), g.data(), width));
    EXPECT_NEAR(measured, expected, 1e-5 * expected);
  }
  const std::vector<float> h{1.0F, -3.0F};
  const float* const none = nullptr;
  EXPECT_THAT(early_skip{}.measure(canonical::drift_of<early_skip::measures>(h.data(), none, 2)),
              FloatNear(2e6F, 1.0F));
}

/// LLaDA's 32 layers skip behind layers 4 and 8, Dream's 28 behind 4 and 7.
TEST(EarlySkip, HooksAtTheDepthsOfItsStages) {
  const auto hooked = [](const early_skip& rule, index_t layers) {
    std::vector<index_t> result;
    for (index_t l = 0; l < layers; ++l) {
      if (rule.hooks(l, layers)) {
        result.push_back(l);
      }
    }
    return result;
  };
  EXPECT_THAT(hooked({}, 32), ElementsAre(4, 8));
  EXPECT_THAT(hooked({}, 28), ElementsAre(4, 7));
  EXPECT_THAT(hooked({}, 1), ElementsAre());
  early_skip at_once;
  at_once.stages[0] = {0.0, 0.5};
  EXPECT_THAT(hooked(at_once, 8), ElementsAre(0, 2));
  early_skip none;
  none.stages[0].keep = none.stages[1].keep = 1.0;
  EXPECT_THAT(hooked(none, 32), ElementsAre());
  early_skip two_of_three;
  two_of_three.stages[2] = {0.5, 0.1};
  EXPECT_THAT(hooked(two_of_three, 8), ElementsAre(1, 2));
}

TEST(EarlySkip, TheNumberThatStays) {
  const no_state nothing;
  const step_info at;
  const early_skip::position_state state;
  const early_skip::layer_reduction best;
  const layer_context<early_skip> context{state, nothing, best, at};
  layer_info info;
  info.layers = 8;
  info.entered = 33;
  info.block_length = 32;
  info.commits = 9;
  info.layer = 1;
  EXPECT_EQ(early_skip{}.quota(info, context), 16);
  EXPECT_EQ(released::early_skip_released().quota(info, context), 16);
  info.layer = 2;
  EXPECT_EQ(early_skip{}.quota(info, context), 8);
  EXPECT_EQ(released::early_skip_released().quota(info, context), 11);
  info.commits = 50;
  EXPECT_EQ(released::early_skip_released().quota(info, context), 32);
}

TEST(EarlySkip, FindsTheTwoMostConfidentPositions) {
  early_skip::layer_reduction best;
  const auto merge = [&best](index_t position, float confidence) {
    early_skip::layer_reduction one;
    one.position[0] = position;
    one.confidence[0] = confidence;
    best.merge(one);
  };
  merge(0, 0.5F);
  EXPECT_THAT(best.position, ElementsAre(0, -1));
  merge(1, 0.9F);
  EXPECT_THAT(best.position, ElementsAre(1, 0));
  EXPECT_THAT(best.confidence, ElementsAre(0.9F, 0.5F));
  merge(2, 0.7F);
  EXPECT_THAT(best.position, ElementsAre(1, 2));
  merge(3, 0.9F);  // not above the first
  EXPECT_THAT(best.position, ElementsAre(1, 3));
  merge(4, 0.9F);
  EXPECT_THAT(best.position, ElementsAre(1, 3));
  early_skip::layer_reduction two;
  two.position[0] = 6;
  two.confidence[0] = 0.95F;
  two.position[1] = 5;
  two.confidence[1] = 0.92F;
  best.merge(two);
  EXPECT_THAT(best.position, ElementsAre(6, 5));
  EXPECT_THAT(best.confidence, ElementsAre(0.95F, 0.92F));
}

TEST(EarlySkip, StoresTheConfidenceOfACandidate) {
  struct sure {
    [[nodiscard]] float confidence() const { return 0.75F; }
    [[nodiscard]] sure total() const { return *this; }
  };
  struct {
    early_skip::position_state state;
  } context;
  sure row;
  static_cast<void>(early_skip{}.reduce(row, context));
  EXPECT_EQ(context.state.confidence, 0.75F);
  early_skip{.forgets_held = true}.process(row, context);
  EXPECT_EQ(context.state.confidence, 0.0F);
  early_skip{}.process(row, context);
  EXPECT_EQ(context.state.confidence, 0.75F);
}

TEST(EarlySkip, AcceptsAllItsStagesAndTheLastLayer) {
  early_skip rule;
  rule.stage_count = max_skip_stages;
  for (skip_stage& stage : rule.stages) {
    stage = {1.0, 1.0};
  }
  EXPECT_NO_THROW(check_part(rule, {.length = 8}));
}

TEST(EarlySkip, ChecksItsKnobs) {
  const sequence_shape g{.prompt_length = 0, .length = 8};
  const auto refused = [&g](const auto& change) {
    early_skip rule;
    change(rule);
    EXPECT_THROW(check_part(rule, g), std::invalid_argument);
  };
  refused([](early_skip& r) { r.weight = 1.5F; });
  refused([](early_skip& r) { r.weight = std::nanf(""); });
  refused([](early_skip& r) { r.stage_count = 9; });
  refused([](early_skip& r) { r.stages[0].keep = -0.1; });
  refused([](early_skip& r) { r.stages[1].keep = 0.6; });  // more than the stage before
  refused([](early_skip& r) { r.stages[0].depth = 2.0; });
  refused([](early_skip& r) { r.committed = -1.0F; });
  refused([](early_skip& r) { r.first_masked = HUGE_VALF; });
  EXPECT_NO_THROW(check_part(early_skip{}, g));
  EXPECT_NO_THROW(check_part(released::early_skip_released(), g));
}

TEST(early_skip, takes_its_stages_from_lists) {
  const double depths[] = {0.1, 0.2, 0.3};
  const double keeps[] = {0.9, 0.8, 0.7};
  early_skip rule;
  early_skip::take_depths(rule, depths, 3);
  early_skip::take_keeps(rule, keeps, 3);
  ASSERT_EQ(rule.stage_count, 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(rule.stages[i].depth, depths[i]);
    EXPECT_EQ(rule.stages[i].keep, keeps[i]);
  }
}

}  // namespace
}  // namespace unmask::testing::early_skip_test
