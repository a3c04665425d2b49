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

namespace unmask::testing {
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

}  // namespace
}  // namespace unmask::testing
