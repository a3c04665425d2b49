// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A row that is edited after its read, beside the row of the edited logits in double precision.
#include <unmask/stats/canonical.hpp>
#include <unmask/stats/row.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "support/dice.hpp"

namespace unmask::testing::row_test {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr statistics all = stat::confidence | stat::margin | stat::entropy | stat::second_moment;

/// A row of logits of which the listed tokens are tracked.
template <statistics S>
struct edited {
  edited(const std::vector<float>& z,
         const std::vector<token_id>& tracked,
         const std::vector<token_id>& suppressed = {},
         const draw_request& draw = {})
      : tokens(tracked)
      , excluded(suppressed)
      , row(read(z, draw), list(z), draw) {}
  edited(const edited&) = delete;
  edited& operator=(const edited&) = delete;

  std::vector<token_id> tokens;
  std::vector<token_id> excluded;
  std::vector<float> logits;
  revisable_row<S> row;

 private:
  record<S> read(std::vector<float> z, const draw_request& draw) const {
    for (const token_id v : tokens) {
      z[static_cast<std::size_t>(v)] = -inf;
    }
    return canonical::fold_chunk<S>(z.data(), static_cast<index_t>(z.size()), 0, draw);
  }
  tracked_logits list(const std::vector<float>& z) {
    for (const token_id v : tokens) {
      logits.push_back(z[static_cast<std::size_t>(v)]);
    }
    return {tokens.data(),
            logits.data(),
            static_cast<index_t>(tokens.size()),
            excluded.data(),
            static_cast<index_t>(excluded.size())};
  }
};

void expect_statistics(const record<all>& r, const std::vector<float>& z) {
  std::vector<double> p;
  const double best = static_cast<double>(*std::ranges::max_element(z));
  double total = 0.0;
  for (const float x : z) {
    p.push_back(std::exp(static_cast<double>(x) - best));
    total += p.back();
  }
  double entropy = 0.0;
  double squares = 0.0;
  for (double& x : p) {
    x /= total;
    entropy -= x > 0.0 ? x * std::log(x) : 0.0;
    squares += x * x;
  }
  std::ranges::sort(p, std::greater{});
  EXPECT_EQ(r.best, *std::ranges::max_element(z));
  EXPECT_EQ(r.token, std::ranges::max_element(z) - z.begin());  // the first of equal ones
  EXPECT_NEAR(static_cast<double>(r.confidence()), p[0], 1e-6);
  EXPECT_NEAR(static_cast<double>(r.margin()), p[0] - p[1], 1e-6);
  EXPECT_NEAR(static_cast<double>(r.entropy()), entropy, 4e-6);
  EXPECT_NEAR(static_cast<double>(r.second_moment()), squares, 1e-6);
}

TEST(revisable_row, has_the_statistics_of_the_edited_logits) {
  dice d(2);
  for (int round = 0; round < 300; ++round) {
    std::vector<float> z;
    for (int v = d.within(4, 90); v > 0; --v) {
      z.push_back(0.5F * static_cast<float>(d.within(-12, 4)));  // some are equal
    }
    std::vector<token_id> tracked;
    for (token_id v = 1; v < static_cast<token_id>(z.size()); ++v) {
      if (d.chance(0.2)) {
        tracked.push_back(v);
      }
    }
    edited<all> e(z, tracked);
    expect_statistics(e.row.total(), z);
    for (int k = 0; k < 4; ++k) {
      // A tracked token, or the best of the others.
      token_id token = no_token;
      for (token_id v = 0; v < static_cast<token_id>(z.size()); ++v) {
        const bool better = token == no_token ||
                            z[static_cast<std::size_t>(v)] > z[static_cast<std::size_t>(token)];
        token = !e.row.tracks(v) && better ? v : token;
      }
      const bool raises = tracked.empty() || d.chance(0.5);
      const float delta = d.real(raises ? 0.01 : -3.0, 3.0);
      token = raises ? token : d.one_of(tracked);
      e.row.add(token, delta);
      z[static_cast<std::size_t>(token)] += delta;
      expect_statistics(e.row.total(), z);
      EXPECT_EQ(std::isnan(e.row.logit(token)), raises);
    }
    ASSERT_FALSE(HasFailure()) << round;
  }
}

TEST(revisable_row, is_without_its_suppressed_tokens) {
  edited<all> e({1.0F, 5.0F, 2.0F, 1.5F}, {1, 2}, {1});
  EXPECT_EQ(e.row.logit(1), -inf);
  EXPECT_EQ(e.row.logit(2), 2.0F);
  expect_statistics(e.row.total(), {1.0F, -inf, 2.0F, 1.5F});
}

TEST(revisable_row, keeps_only_what_is_asked_for) {
  edited<all> e({4.0F, 3.0F, 2.0F, 1.0F}, {1, 2, 3});
  const token_id kept[] = {3, 1};
  EXPECT_TRUE(e.row.has_untracked());
  e.row.keep_only(kept, 2);
  EXPECT_FALSE(e.row.has_untracked());
  expect_statistics(e.row.total(), {-inf, 3.0F, -inf, 1.0F});
}

TEST(revisable_row, that_is_invalid_stays_so_when_tokens_are_excluded) {
  for (const bool allows_the_best : {true, false}) {
    edited<all> e({4.0F, std::numeric_limits<float>::quiet_NaN(), 2.0F, 1.0F}, {2, 3});
    ASSERT_FALSE(e.row.total().valid());
    e.row.keep_allowed([&](token_id v) { return v == 3 || (v == 0 && allows_the_best); });
    EXPECT_FALSE(e.row.total().valid());
    EXPECT_EQ(e.row.total().token, allows_the_best ? 0 : 3);
    EXPECT_EQ(e.row.logit(2), -inf);
    EXPECT_EQ(e.row.logit(3), 1.0F);
  }
}

TEST(revisable_row, draws_from_the_edited_logits) {
  constexpr int draws = 5000;
  for (const float temperature : {1.0F, 0.7F}) {
    const std::vector<float> z = {1.0F, 0.6F, 0.3F, 0.0F, -0.5F, 0.8F};
    std::vector<int> hits(z.size(), 0);
    for (int i = 0; i < draws; ++i) {
      const draw_request draw{{.seed = 5, .step = i}, temperature};
      edited<stat::confidence | stat::sampled> e(z, {1, 3}, {}, draw);
      e.row.add(0, 0.4F);  // the best, in two parts
      e.row.add(0, 0.5F);
      e.row.add(1, 0.9F);
      e.row.add(3, -1.0F);
      const auto r = e.row.total();
      ++hits[static_cast<std::size_t>(r.drawn)];
      const std::vector<float> edited_logits = {1.9F, 1.5F, 0.3F, -1.0F, -0.5F, 0.8F};
      EXPECT_FLOAT_EQ(r.drawn_logit, edited_logits[static_cast<std::size_t>(r.drawn)]);
    }
    std::vector<double> weights;
    double total = 0.0;
    for (const double x : {1.9, 1.5, 0.3, -1.0, -0.5, 0.8}) {
      weights.push_back(std::exp(x / static_cast<double>(temperature)));
      total += weights.back();
    }
    double chi_square = 0.0;
    for (std::size_t v = 0; v < z.size(); ++v) {
      const double expected = draws * weights[v] / total;
      chi_square += (hits[v] - expected) * (hits[v] - expected) / expected;
    }
    EXPECT_LT(chi_square, 20.52) << temperature;  // 5 degrees of freedom, 1 in 1,000
  }
}

// Nothing remains of a row but the name that it was given for want of a finite logit.
TEST(revisable_row, without_a_finite_logit_keeps_its_token) {
  constexpr statistics s = stat::confidence | stat::sampled;
  const token_id tokens[] = {2, 3};
  const token_id kept[] = {3};
  for (const bool has_columns : {false, true}) {
    float logits[] = {-inf, -inf};
    record<s> untracked = record<s>::empty();
    untracked.token = 7;
    untracked.best = has_columns ? 1.0F : -inf;
    revisable_row<s> row(untracked, {tokens, logits, 2, nullptr, 0});
    EXPECT_EQ(row.total().token, 7);
    row.keep_only(kept, 1);
    EXPECT_FALSE(row.has_untracked());
    EXPECT_EQ(row.total().token, has_columns ? no_token : 7);
    EXPECT_EQ(row.total().best, -inf);
    EXPECT_EQ(row.total().rest, 0.0F);
  }
}

TEST(revisable_row, without_its_raised_best_token_draws_no_more_from_it) {
  constexpr statistics s = stat::confidence | stat::sampled;
  for (int i = 0; i < 200; ++i) {
    edited<s> e({4.0F, 3.0F, 2.0F}, {1, 2}, {}, {{.seed = 5, .step = i}, 1.0F});
    e.row.add(0, 9.0F);
    ASSERT_EQ(e.row.total().token, 0);
    const token_id kept[] = {1};
    e.row.keep_only(kept, 1);
    EXPECT_EQ(e.row.total().drawn, 1);
    EXPECT_EQ(e.row.total().drawn_logit, 3.0F);
    EXPECT_EQ(e.row.total().confidence(), 1.0F);
  }
}

TEST(revisable_row, has_the_raised_logit_of_the_token_that_was_drawn) {
  constexpr statistics s = stat::confidence | stat::sampled;
  int best = 0;
  int other = 0;
  for (int i = 0; i < 400; ++i) {
    edited<s> e({1.0F, 0.9F, 0.8F}, {}, {}, {{.seed = 6, .step = i}, 1.0F});
    const auto before = e.row.total();
    e.row.add(0, 0.25F);
    const auto after = e.row.total();
    // A gain can win the draw for the token that has it, for no other.
    EXPECT_TRUE(after.drawn == before.drawn || after.drawn == 0);
    EXPECT_EQ(after.drawn_logit, after.drawn == 0 ? 1.25F : before.drawn_logit);
    EXPECT_GE(after.key, before.key);
    ++(after.drawn == 0 ? best : other);
  }
  EXPECT_GT(best, 50);
  EXPECT_GT(other, 50);
}

// Raised in two steps or in one, the token has one gain.
TEST(revisable_row, adds_up_what_its_best_token_gains) {
  constexpr statistics s = stat::confidence | stat::sampled;
  for (int i = 0; i < 100; ++i) {
    const draw_request draw{{.seed = 8, .step = i}, 0.5F};
    edited<s> once({1.0F, 0.9F, 0.8F}, {2}, {}, draw);
    edited<s> twice({1.0F, 0.9F, 0.8F}, {2}, {}, draw);
    once.row.add(0, 0.75F);
    twice.row.add(0, 0.25F);
    twice.row.add(0, 0.5F);
    EXPECT_EQ(once.row.total().key, twice.row.total().key);
    EXPECT_EQ(once.row.total().drawn, twice.row.total().drawn);
    EXPECT_EQ(once.row.total().drawn_logit, twice.row.total().drawn_logit);
    EXPECT_NEAR(once.row.total().rest, twice.row.total().rest, 1e-6);
  }
}

TEST(revisable_row, leaves_the_best_token_as_it_is_without_a_gain) {
  edited<all> e({4.0F, 3.0F, 2.0F}, {2});
  const record<all> before = e.row.total();
  e.row.add(0, 0.0F);
  EXPECT_EQ(e.row.total().best, before.best);
  EXPECT_EQ(e.row.total().rest, before.rest);
  EXPECT_EQ(e.row.total().square, before.square);
  EXPECT_TRUE(e.row.tracks(2));
  EXPECT_FALSE(e.row.tracks(0));
}

TEST(narrowed_row, is_the_row_with_fewer_statistics) {
  edited<all> e({4.0F, 3.0F, 2.0F, 1.0F}, {1, 2});
  narrowed_row<stat::confidence, all, true> view(e.row);
  EXPECT_TRUE(view.tracks(1));
  EXPECT_FALSE(view.tracks(0));
  EXPECT_EQ(view.logit(2), 2.0F);
  view.add(2, 5.0F);
  EXPECT_EQ(e.row.logit(2), 7.0F);
  EXPECT_EQ(view.total().token, 2);
  EXPECT_EQ(view.total().rest, e.row.total().rest);
  const token_id kept[] = {1};
  view.keep_only(kept, 1);
  expect_statistics(e.row.total(), {-inf, 3.0F, -inf, -inf});
}

}  // namespace
}  // namespace unmask::testing::row_test
