// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/named_policy.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/commit/local_leap.hpp>
#include <unmask/policy/logits/tokens.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/schedule/schedule.hpp>

#include <gmock/gmock.h>

#include <cstdlib>
#include <limits>
#include <map>
#include <string>

#include "support/by_name.hpp"
#include "support/cuts.hpp"
#include "support/observed_decode.hpp"
#include "support/ranks_decode.hpp"

namespace unmask::testing::local_leap_test {
namespace {

constexpr index_t whole = 30;

// Rows with given confidences, whatever is committed. A confidence of 0 makes the row invalid, one
// of 1 stands for exactly 1/2.
struct scripted {
  std::map<index_t, double> confidence;
  [[nodiscard]] model_info info() const { return {.vocab = 40, .mask_token = 39}; }
  void row(std::span<const token_id>, index_t position, std::span<float> out) const {
    const auto at = confidence.find(position);
    write_row(out, position % 7, at == confidence.end() || at->second == 0.0 ? 0.5 : at->second);
    if (at != confidence.end() && at->second == 0.0) {
      out[0] = std::numeric_limits<float>::quiet_NaN();
    } else if (at != confidence.end() && at->second == 1.0) {
      write_even_row(out);
    }
  }
};

using positions = std::vector<index_t>;

// The positions that the first step commits when exactly those of the script are masked.
template <class Policy>
positions first_commits(const Policy& p, const scripted& model, index_t block = whole) {
  std::vector<token_id> tokens(whole, 1);
  std::vector<std::uint8_t> editable(whole, 0);
  for (const auto& [position, confidence] : model.confidence) {
    editable[static_cast<std::size_t>(position)] = 1;
  }
  session<by_name_type<Policy>> s{model.info(), {.sequences = 1, .length = whole, .window = whole}};
  s.start(0,
          by_name(p),
          tokens,
          {.length = whole, .block_length = block},
          {.editable = editable, .suppressed = {}});
  supply_one(s, s.next().value(), model, tokens);
  return positions_of(s.committed());
}

positions first_commits(const local_leap& rule, const scripted& model) {
  return first_commits(policy{by_confidence{}, rule}, model);
}

TEST(local_leap, relaxes_the_threshold_within_the_radius_of_an_anchor) {
  const scripted model{
      {{2, 0.78}, {3, 0.8}, {6, 0.74}, {7, 0.95}, {9, 0.76}, {12, 0.8}, {20, 0.8}}};
  EXPECT_EQ(first_commits(local_leap{}, model), (positions{3, 7, 9}));
  EXPECT_EQ(first_commits(local_leap{.radius = 5}, model), (positions{2, 3, 7, 9, 12}));
  EXPECT_EQ(first_commits(local_leap{.relaxed = 0.7F}, model), (positions{3, 6, 7, 9}));
}

TEST(local_leap, does_not_spread_from_what_it_commits) {
  EXPECT_EQ(first_commits(local_leap{.radius = 1}, scripted{{{4, 0.8}, {5, 0.8}, {6, 0.95}}}),
            (positions{5, 6}));
}

TEST(local_leap, commits_the_best_without_an_anchor) {
  EXPECT_EQ(first_commits(local_leap{}, scripted{{{3, 0.8}, {4, 0.85}, {5, 0.8}}}), (positions{4}));
  EXPECT_EQ(first_commits(local_leap{}, scripted{{{17, 0.1}}}), (positions{17}));
}

TEST(local_leap, includes_both_thresholds_and_the_radius) {
  const scripted model{{{5, 0.9}, {8, 1.0}, {12, 1.0}}};  // 1 is exactly 1/2
  EXPECT_EQ(first_commits(local_leap{0.8F, 0.5F, 3}, model), (positions{5, 8}));
  EXPECT_EQ(first_commits(local_leap{0.8F, 0.5F, 2}, model), (positions{5}));
  EXPECT_EQ(first_commits(local_leap{0.8F, std::nextafter(0.5F, 1.0F), 3}, model), (positions{5}));
  EXPECT_EQ(first_commits(local_leap{0.5F, 0.1F, 0}, model), (positions{5, 8, 12}));
  EXPECT_EQ(first_commits(local_leap{std::nextafter(0.5F, 1.0F), 0.5F, 3}, model),
            (positions{5, 8}));
}

TEST(local_leap, reaches_everything_with_any_radius) {
  const scripted model{{{0, 0.95}, {29, 0.8}}};
  EXPECT_EQ(first_commits(local_leap{.radius = 28}, model), (positions{0}));
  for (const index_t radius : {29, 30, 0x7fffffff}) {
    EXPECT_EQ(first_commits(local_leap{.radius = radius}, model), (positions{0, 29}));
  }
}

TEST(local_leap, an_invalid_row_is_no_anchor_and_ends_no_neighbourhood) {
  EXPECT_EQ(first_commits(local_leap{}, scripted{{{5, 0.95}, {6, 0.0}, {7, 0.8}}}),
            (positions{5, 7}));
  EXPECT_EQ(first_commits(local_leap{}, scripted{{{5, 0.8}, {6, 0.0}, {7, 0.85}}}), (positions{7}));
}

TEST(local_leap, sees_anchors_of_all_blocks_that_are_scored) {
  const scripted model{{{9, 0.95}, {10, 0.8}, {11, 0.8}}};
  const auto rule = local_leap{.radius = 1};
  EXPECT_EQ(first_commits(policy{by_confidence{}, rule, single_block{}}, model, 10),
            (positions{9, 10}));
  EXPECT_EQ(first_commits(policy{by_confidence{}, rule}, model, 10), (positions{9}));
}

// Positions that divide by three come last.
struct every_third_last {
  static constexpr statistics required = stat::none;
  UNMASK_HD filter_result filter(const auto& c, const auto&) const {
    return c.position % 3 == 0 ? filter_result::ranked_last : filter_result::keep;
  }
};

TEST(local_leap, a_ranked_last_candidate_is_no_anchor) {
  const scripted model{{{3, 0.95}, {4, 0.8}, {10, 0.92}, {11, 0.8}, {12, 0.8}}};
  EXPECT_EQ(first_commits(policy{by_confidence{}, local_leap{}, every_third_last{}}, model),
            (positions{10, 11}));
}

TEST(local_leap, has_its_anchors_inside_composed_commit_rules) {
  const policy both{by_margin{}, tokens_per_step{1} || (local_leap{} && threshold{0.79F, true})};
  static_assert(decltype(both)::anchors && !decltype(both)::needs_spans);
  static_assert(!decltype(policy{by_confidence{}, threshold{.inclusive = true}})::anchors);
  EXPECT_EQ(first_commits(both, scripted{{{5, 0.95}, {6, 0.8}, {7, 0.78}}}), (positions{5, 6}));
}

// The rule from its words, in double precision; nothing where a decision is rounding.
std::optional<positions>
expected(const std::vector<observed_row>& open, double threshold, double relaxed, index_t radius) {
  positions all;
  for (const observed_row& r : open) {
    bool is_near = false;
    for (const observed_row& anchor : open) {
      is_near = is_near || (anchor.confidence >= threshold &&
                            std::abs(anchor.position - r.position) <= radius);
    }
    if (is_close(r.confidence, threshold) || is_close(r.confidence, relaxed)) {
      return std::nullopt;
    }
    if (r.confidence >= (is_near ? relaxed : threshold)) {
      all.push_back(r.position);
    }
  }
  if (all.empty()) {
    const auto surer = [](const observed_row& a, const observed_row& b) {
      return a.confidence < b.confidence;
    };
    const observed_row best = *std::max_element(open.begin(), open.end(), surer);
    for (const observed_row& r : open) {
      if (r.position != best.position && is_close(r.confidence, best.confidence)) {
        return std::nullopt;
      }
    }
    all.push_back(best.position);
  }
  return all;
}

TEST(local_leap, agrees_with_the_rule_in_double_precision) {
  int compared = 0;
  int skipped = 0;
  int relaxing = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const made_up_model model{.seed = seed, .sharpness = 1.0 + static_cast<double>(seed % 9)};
    const double threshold = 0.5 + 0.04 * static_cast<double>(seed % 11);
    const double relaxed = std::min(threshold * (0.3 + 0.09 * static_cast<double>(seed % 10)), 1.0);
    const auto radius = static_cast<index_t>(seed % 7);
    const policy p{by_confidence{},
                   local_leap{static_cast<float>(threshold), static_cast<float>(relaxed), radius}};
    const sequence_shape g{
        .prompt_length = 2, .length = 40, .block_length = 5 + static_cast<index_t>(seed % 30)};
    index_t steps = 0;
    observe_decode(p, model, g, [&](const observed_step& s) {
      ++steps;
      const auto want = expected(s.masked, threshold, relaxed, radius);
      if (!want) {
        ++skipped;
        return;
      }
      ++compared;
      EXPECT_EQ(positions_of(s.committed), *want);
      relaxing += want != expected(s.masked, threshold, threshold, radius) ? 1 : 0;
    });
    EXPECT_LE(steps, g.length - g.prompt_length);
  }
  EXPECT_GT(compared, 1000);
  EXPECT_GT(relaxing, 200);
  EXPECT_LT(skipped, compared / 20);
}

TEST(local_leap, may_ask_for_more_beside_anchors) {
  const scripted model{{{2, 0.7}, {3, 0.65}, {9, 0.8}, {10, 0.65}, {20, 0.5}}};
  EXPECT_EQ(first_commits(local_leap{0.6F, 0.75F, 2}, model), (positions{9}));
  EXPECT_EQ(first_commits(local_leap{0.6F, 0.9F, 2}, model), (positions{9}));  // the best
}

TEST(local_leap, a_radius_of_0_or_equal_thresholds_are_one_threshold) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const made_up_model model{.seed = seed};
    const sequence_shape g{.length = 40, .block_length = 16};
    const auto one = commits_of(policy{by_confidence{}, threshold{0.6F, true}}, model, g);
    for (const local_leap& rule : {local_leap{0.6F, 0.1F, 0}, local_leap{0.6F, 0.6F, 9}}) {
      EXPECT_EQ(commits_of(policy{by_confidence{}, rule}, model, g), one);
    }
  }
}

// Decisions of a sequence depend neither on other sequences nor on the cuts of the vocabulary.
TEST(local_leap, decides_alike_in_a_batch_and_on_ranks) {
  dice d(5);
  for (const index_t vocab : {9, 3 * canonical::chunk_columns + 5}) {
    const auto decode = fake_decode_of(
        policy{by_confidence{}, local_leap{0.4F, 0.1F, 2}, single_block{}}, vocab, d.bits());
    const outcome both = decode.template whole<float>();
    for (std::size_t k = 0; k < decode.sequences.size(); ++k) {
      auto alone = decode;
      alone.sequences = {decode.sequences[k]};
      EXPECT_EQ(alone.template whole<float>().tokens[0], both.tokens[k]);
    }
    for (index_t ranks = 2; ranks <= 4; ++ranks) {
      const auto cuts = random_cuts(d, vocab, ranks, canonical::chunk_columns);
      EXPECT_EQ(decode.template ranks<float>(cuts).said, both.said);
    }
  }
}

TEST(local_leap, decides_by_name_as_the_part_does) {
  const named_policy by_name = read_policy(
      "any_of(all_of(local_leap(0.6, relaxed=0.3, radius=2), threshold(0.2)), early_commit(4, 3))");
  EXPECT_TRUE(by_name.commit_rule.holds<local_leap>());
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const made_up_model model{.seed = seed};
    const sequence_shape g{.length = 40, .block_length = 16};
    std::vector<token_id> tokens(40, 0);
    session s{policy{by_confidence{},
                     (local_leap{0.6F, 0.3F, 2} && threshold{0.2F}) ||
                         early_commit{.steps = 4, .early = 3.0F}},
              model.info(),
              tokens,
              g};
    std::vector<std::vector<index_t>> typed;
    observe_decode(s, model, tokens, [&](const observed_step& step) {
      typed.emplace_back();
      for (const commit_entry& e : step.committed) {
        typed.back().push_back(e.position * 1000 + e.token);
      }
    });
    EXPECT_EQ(commits_of(by_name, model, g), typed) << "seed " << seed;
  }
}

TEST(local_leap, has_ranges_and_one_set_of_anchors) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const local_leap& bad : {local_leap{1.1F, 0.5F, 4},
                                local_leap{nan, 0.5F, 4},
                                local_leap{0.9F, -0.1F, 4},
                                local_leap{0.9F, nan, 4},
                                local_leap{.radius = -1}}) {
    EXPECT_THROW(check_part(bad, sequence_shape{}), std::invalid_argument);
  }
  EXPECT_THROW(static_cast<void>(read_policy("local_leap(0.5, 1.1)")), policy_text_error);
  try {
    static_cast<void>(read_policy("any_of(local_leap, local_leap(0.95))"));
    ADD_FAILURE();
  } catch (const policy_text_error& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("one part with anchors"));
  }
  EXPECT_THAT(describe_parts(),
              ::testing::HasSubstr("local_leap(threshold=0.9, relaxed=0.75, radius=4)"));
}

}  // namespace
}  // namespace unmask::testing::local_leap_test
