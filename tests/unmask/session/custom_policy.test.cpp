// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/stop.hpp>

#include <gtest/gtest.h>

#include <vector>

#include "support/fixed_rows.hpp"

// Policies as a user writes them: in another namespace, knowing only what is public.
namespace somebody {

using unmask::index_t;

/// Surest first, but of even positions before odd ones.
struct even_first {
  static constexpr unmask::statistics required = unmask::stat::confidence;
  float score(const auto& c) const { return c.confidence() + (c.position % 2 == 0 ? 1.0F : 0.0F); }
};

struct second_below {
  float bound = 0.1F;
  static constexpr unmask::statistics required = unmask::stat::margin;
  bool commits(const auto& c, const unmask::rank_info&) const {
    return c.second_probability() < bound;
  }
};

struct early_ranks {
  index_t count = 2;
  static constexpr unmask::statistics required = unmask::stat::none;
  bool commits(const auto&, const unmask::rank_info& s) const { return s.rank < count; }
};

/// Ranks and commits, and stores the previous confidence of each position.
struct growing_confidence {
  float start = 0.9F;
  float relief = 0.2F;
  struct position_state {
    float last = 0.0F;
    index_t looks = 0;
  };
  static constexpr unmask::statistics required = unmask::stat::confidence;
  float score(const auto& c) const { return c.confidence(); }
  bool commits(const auto& c, const unmask::rank_info&, auto& context) const {
    const float threshold = start - relief * static_cast<float>(context.state.looks);
    ++context.state.looks;
    context.state.last = c.confidence();
    return c.confidence() >= threshold;
  }
};

}  // namespace somebody

namespace unmask::testing::custom_policy_test {
namespace {

using positions = std::vector<index_t>;
using steps = std::vector<positions>;

static_assert(ranking<somebody::even_first>);
static_assert(commit_rule<somebody::second_below>);
static_assert(ranking<somebody::growing_confidence> && commit_rule<somebody::growing_confidence>);

TEST(custom_ranking, orders_as_it_says) {
  const policy p{somebody::even_first{}, tokens_per_step{1}};
  EXPECT_EQ(decode_confidences(p, {0.3, 0.9, 0.5, 0.8}).order(), (positions{2, 0, 1, 3}));
}

TEST(custom_commit_rule, reads_the_statistic_it_declares) {
  const policy p{by_confidence{}, somebody::second_below{0.1F}};
  // The other tokens share the rest: (1 - c) / 3 is .0667, .1667, .0333.
  EXPECT_EQ(decode_confidences(p, {0.8, 0.5, 0.9}).positions, (steps{{0, 2}, {1}}));
  static_assert(decltype(p)::required == stat::margin);
}

TEST(custom_commit_rules, join_by_all_of_and_any_of) {
  const std::vector<double> c = {0.8, 0.5, 0.9};
  const auto first = [&](const auto& commits) {
    return decode_confidences(policy{by_confidence{}, commits}, c).positions.front();
  };
  EXPECT_EQ(first(all_of{somebody::second_below{0.1F}, somebody::early_ranks{1}}), (positions{2}));
  EXPECT_EQ(first(any_of{somebody::second_below{0.05F}, somebody::early_ranks{2}}),
            (positions{0, 2}));
  // With one of ours the operators are found.
  EXPECT_EQ(first(somebody::second_below{0.1F} && tokens_per_step{1}), (positions{2}));
  EXPECT_EQ(first(tokens_per_step{1} || somebody::second_below{0.1F}), (positions{0, 2}));
}

TEST(custom_part, may_rank_and_commit_and_remember) {
  const policy p{somebody::growing_confidence{.start = 0.9F, .relief = 0.2F}};
  static_assert(decltype(p)::part_total == 1);
  // Thresholds .9, .7, .5 as the steps go by.
  const history h = decode_confidences(p, {0.6, 0.75, 0.95, 0.72, 0.45, 0.55});
  EXPECT_EQ(h.positions, (steps{{2}, {1, 3}, {0, 5}, {4}}));
  EXPECT_EQ(h.report.forced, 0) << "at .3 even .45 passes";
}

TEST(custom_part, composes_with_shipped_ones) {
  const model_info model = {.vocab = small_vocab, .mask_token = 4, .eos_token = 3};
  const std::vector<row> table = {
      row_with_confidence(0.95, 0), row_with_confidence(0.95, 3), row_with_confidence(0.5, 1)};
  const history h = decode_rows(
      policy{somebody::growing_confidence{}, stop_at_eos{}}, table, {.block_length = 3}, model);
  EXPECT_EQ(h.report.end, ending::eos_token);
  EXPECT_EQ(h.report.forwards, 1);
}

}  // namespace
}  // namespace unmask::testing::custom_policy_test
