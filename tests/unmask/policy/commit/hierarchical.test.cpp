// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/commit/hierarchical.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/schedule/schedule.hpp>

#include <limits>
#include <map>
#include <stdexcept>

#include "support/observed_decode.hpp"

namespace unmask::testing::hierarchical_test {
namespace {

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

// The positions that the first step commits when exactly those of the script are masked.
template <class Policy>
std::vector<index_t> first_commits(const Policy& p, const scripted& model, index_t length = 16) {
  std::vector<token_id> tokens(static_cast<std::size_t>(length), 1);
  std::vector<std::uint8_t> editable(static_cast<std::size_t>(length), 0);
  for (const auto& [position, confidence] : model.confidence) {
    editable[static_cast<std::size_t>(position)] = 1;
  }
  session<Policy> s{model.info(), {.sequences = 1, .length = length, .window = length}};
  s.start(0,
          p,
          tokens,
          {.length = length, .block_length = length},
          {.editable = editable, .suppressed = {}});
  supply_one(s, s.next().value(), model, tokens);
  return positions_of(s.committed());
}

using positions = std::vector<index_t>;

const scripted vector_11{{{3, 0.55}, {4, 0.35}, {7, 0.20}, {8, 0.30}, {12, 0.97}, {13, 0.91}}};

TEST(hierarchical, test_vector_11) {
  EXPECT_EQ(first_commits(policy{by_confidence{}, hierarchical{.low = 0.4F, .threshold = 1.0F}},
                          vector_11),
            (positions{3, 12}));
  EXPECT_EQ(first_commits(policy{by_confidence{}, hierarchical{.low = 0.4F, .threshold = 0.9F}},
                          vector_11),
            (positions{3, 12, 13}));
}

TEST(hierarchical, the_best_of_all_commits_below_low) {
  EXPECT_EQ(first_commits(policy{by_confidence{}, hierarchical{}},
                          scripted{{{1, 0.2}, {2, 0.3}, {8, 0.25}}}),
            (positions{2}));
}

TEST(hierarchical, comparisons_are_strict) {
  // 2 wins its run with 1/2, 9 has the better 10 beside it.
  const scripted model{{{2, 1.0}, {9, 1.0}, {10, 0.75}}};
  const auto commits = [&](float low, float threshold) {
    return first_commits(policy{by_confidence{}, hierarchical{low, threshold}}, model);
  };
  const float below = std::nextafter(0.5F, 0.0F);
  EXPECT_EQ(commits(below, 1.0F), (positions{2, 10}));
  EXPECT_EQ(commits(0.5F, 1.0F), (positions{10}));
  EXPECT_EQ(commits(0.6F, below), (positions{2, 9, 10}));
  EXPECT_EQ(commits(0.6F, 0.5F), (positions{10}));
}

TEST(hierarchical, an_equal_neighbour_leaves_the_run_to_the_lower_position) {
  EXPECT_EQ(first_commits(policy{by_confidence{}, hierarchical{}},
                          scripted{{{3, 0.6}, {4, 0.6}, {5, 0.6}, {10, 0.6}, {11, 0.6}}}),
            (positions{3, 10}));
}

TEST(hierarchical, an_invalid_row_ends_a_run) {
  EXPECT_EQ(first_commits(policy{by_confidence{}, hierarchical{}},
                          scripted{{{3, 0.6}, {4, 0.0}, {5, 0.7}, {6, 0.65}}}),
            (positions{3, 5}));
}

TEST(hierarchical, runs_are_counted_inside_composed_commit_rules) {
  const policy both{by_confidence{},
                    tokens_per_step{1} || (hierarchical{0.4F, 1.0F} && unmask::threshold{0.5F})};
  static_assert(decltype(both)::needs_spans);
  static_assert(!decltype(policy{by_confidence{}, tokens_per_step{}})::needs_spans);
  EXPECT_EQ(first_commits(both, vector_11), (positions{3, 12}));
}

TEST(hierarchical, one_masked_position_is_a_run) {
  EXPECT_EQ(
      first_commits(policy{by_confidence{}, hierarchical{}}, scripted{{{0, 0.41}, {15, 0.42}}}),
      (positions{0, 15}));
}

// The rule from its words, in double precision; nothing where a decision is rounding.
std::optional<positions>
expected(const std::vector<observed_row>& open, double low, double threshold) {
  positions all;
  for (std::size_t first = 0; first < open.size();) {
    std::size_t last = first + 1;
    while (last < open.size() && open[last].position == open[last - 1].position + 1) {
      ++last;
    }
    const std::span<const observed_row> run(open.data() + first, last - first);
    const index_t best = best_of(run);
    for (const observed_row& r : run) {
      const bool wins = r.position == best;
      if (is_close(r.confidence, low) || is_close(r.confidence, threshold)) {
        return std::nullopt;
      }
      for (const observed_row& other : run) {
        if (other.position != r.position && is_close(other.confidence, r.confidence)) {
          return std::nullopt;
        }
      }
      if ((wins && r.confidence > low) || r.confidence > threshold) {
        all.push_back(r.position);
      }
    }
    first = last;
  }
  if (all.empty()) {
    all.push_back(best_of(open));
  }
  return all;
}

TEST(hierarchical, agrees_with_the_rule_in_double_precision) {
  int compared = 0;
  int skipped = 0;
  int parallel = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const made_up_model model{.seed = seed, .sharpness = 1.0 + static_cast<double>(seed % 9)};
    const double low = 0.1 + 0.08 * static_cast<double>(seed % 10);
    const double threshold = 0.5 + 0.05 * static_cast<double>(seed % 11);
    const policy p{by_confidence{},
                   hierarchical{static_cast<float>(low), static_cast<float>(threshold)}};
    const sequence_shape g{
        .prompt_length = 2, .length = 40, .block_length = 5 + static_cast<index_t>(seed % 30)};
    observe_decode(p, model, g, [&](const observed_step& s) {
      const auto want = expected(s.masked, low, threshold);
      if (!want) {
        ++skipped;
        return;
      }
      ++compared;
      const positions got = positions_of(s.committed);
      EXPECT_EQ(got, *want);
      parallel += got.size() > 1 ? 1 : 0;
    });
  }
  EXPECT_GT(compared, 1000);
  EXPECT_GT(parallel, 200);
  EXPECT_LT(skipped, compared / 20);
}

TEST(hierarchical, takes_the_best_of_every_run_above_low) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const made_up_model model{.seed = seed};
    observe_decode(
        policy{by_confidence{}, hierarchical{.low = 0.0F, .threshold = 1.0F}, single_block{}},
        model,
        {.length = 30},
        [](const observed_step& s) {
          index_t runs = 0;
          for (std::size_t i = 0; i < s.masked.size(); ++i) {
            runs += i == 0 || s.masked[i].position != s.masked[i - 1].position + 1 ? 1 : 0;
          }
          EXPECT_EQ(static_cast<index_t>(s.committed.size()), runs);
        });
  }
}

TEST(hierarchical, refuses_knobs_out_of_range) {
  const made_up_model model;
  std::vector<token_id> tokens(8, 0);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const hierarchical& bad : {hierarchical{-0.1F, 0.5F},
                                  hierarchical{1.1F, 0.5F},
                                  hierarchical{0.4F, 2.0F},
                                  hierarchical{nan, 0.5F}}) {
    EXPECT_THROW(
        (session{policy{by_confidence{}, bad}, model.info(), tokens, sequence_shape{.length = 8}}),
        std::invalid_argument);
  }
}

}  // namespace
}  // namespace unmask::testing::hierarchical_test
