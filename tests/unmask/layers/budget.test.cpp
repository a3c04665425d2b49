// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The positions that cache_budget computes, layer by layer, beside algorithm 1 of its paper: the
// budget of each layer, the most changed positions of all, the window of each committed token.

#include <unmask/policy/presets/released.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "support/layered_decode.hpp"

namespace unmask::testing::budget_test {
namespace {

/// Changes at one layer of one pass, by position, and the mean over them.
using changes = std::map<index_t, float>;

/// cache_budget, writing down the changes that it is shown.
struct tracked_budget : cache_budget {
  std::map<index_t, changes>* seen = nullptr;  ///< of the pass, by layer

  tracked_budget(const cache_budget& rule, std::map<index_t, changes>* to)
      : cache_budget(rule)
      , seen(to) {}

  bool counts(const layer_row& row, const layer_info& l, const auto& context) const {
    (*seen)[l.layer][row.position] = row.drift;
    return cache_budget::counts(row, l, context);
  }
};
static_assert(allocating<tracked_budget> && counting<tracked_budget> && mandating<tracked_budget>);

/// Positions in descending order of their change, equals ascending.
std::vector<index_t> ranked(const changes& all) {
  std::vector<index_t> order;
  for (const auto& [position, change] : all) {
    order.push_back(position);
  }
  std::stable_sort(
      order.begin(), order.end(), [&](index_t a, index_t b) { return all.at(a) > all.at(b); });
  return order;
}

std::set<index_t> windows(const std::vector<index_t>& committed, index_t window, index_t length) {
  std::set<index_t> all;
  for (const index_t p : committed) {
    for (index_t q = std::max(p - window / 2, 0); q <= std::min(p + window / 2, length - 1); ++q) {
      all.insert(q);
    }
  }
  return all;
}

/// Algorithm 1, line 15: the top n of all, and the window.
std::set<index_t> top_of_all(const changes& c, index_t n, const std::set<index_t>& near) {
  const std::vector<index_t> order = ranked(c);
  std::set<index_t> chosen = near;
  chosen.insert(order.begin(), order.begin() + std::min<std::ptrdiff_t>(n, std::ssize(order)));
  return chosen;
}

/// The released code: the window, and the top n of the others.
std::set<index_t> top_of_others(const changes& c, index_t n, const std::set<index_t>& near) {
  std::set<index_t> chosen = near;
  for (const index_t p : ranked(c)) {
    if (n > 0 && !near.contains(p)) {
      chosen.insert(p);
      --n;
    }
  }
  return chosen;
}

/// Equations 5 and 6: shares of the mean changes of the pass before.
std::vector<index_t> naive_shares(const std::map<index_t, changes>& before, index_t total) {
  std::vector<double> mean;
  for (const auto& [layer, c] : before) {
    double sum = 0.0;
    for (const auto& [position, change] : c) {
      sum += static_cast<double>(change);
    }
    mean.push_back(std::max(sum / static_cast<double>(c.size()), 0.0));  // a rounding of 0
  }
  const double all = std::accumulate(mean.begin(), mean.end(), 0.0);
  std::vector<std::pair<double, index_t>> left;
  std::vector<index_t> shares;
  for (std::size_t l = 0; l < mean.size(); ++l) {
    const double exact =
        all > 0.0 ? total * mean[l] / all : total / static_cast<double>(mean.size());
    shares.push_back(static_cast<index_t>(std::floor(exact)));
    left.emplace_back(std::floor(exact) - exact, static_cast<index_t>(l));
  }
  std::sort(left.begin(), left.end());
  const index_t given = std::accumulate(shares.begin(), shares.end(), 0);
  for (index_t k = 0; k < total - given; ++k) {
    ++shares[static_cast<std::size_t>(left[static_cast<std::size_t>(k)].second)];
  }
  return shares;
}

/// Decodes under `rule` with drawn inputs of the layers, and expects at each layer of each pass but
/// the first what `expected(changes, budget, window)` gives. Returns the passes seen in which both
/// kinds of rule choose differently.
template <class Expected>
int expect_choices(const cache_budget& rule, std::uint64_t seed, const Expected& expected) {
  constexpr index_t layers = 5;
  constexpr index_t width = 6;
  constexpr sequence_shape shape{.prompt_length = 7, .length = 39, .block_length = 16};
  dice d(seed);
  std::map<index_t, changes> seen;
  std::map<index_t, changes> before;
  std::vector<token_id> tokens(39, 9);
  std::fill_n(tokens.begin(), shape.prompt_length, 1);
  const policy p{by_confidence{}, tokens_per_step{2}, tracked_budget{rule, &seen}};
  session session(p, {.vocab = 10, .mask_token = 9, .layers = layers}, tokens, shape);
  std::vector<std::vector<float>> stored(layers, std::vector<float>(39 * width, NAN));
  if (seed % 2 == 1) {  // what another sequence left there says nothing of this one
    dice other(seed + 1000);
    for (std::vector<float>& rows : stored) {
      const float scale = other.real(0.0, 2.0);
      std::generate(rows.begin(), rows.end(), [&] { return other.real(-1.0, 1.0) + scale; });
    }
  }
  std::vector<index_t> committed;
  int different = 0;
  for (int step = 0; session.next(); ++step) {
    auto pass = session.pass(0);
    EXPECT_EQ(pass.positions().size(), 39U);
    EXPECT_EQ(session.planned().refresh, step == 0);
    before.swap(seen);
    seen.clear();
    const std::vector<index_t> shares =
        step > 1 ? naive_shares(before, rule.budget * layers)
                 : std::vector<index_t>(layers, rule.budget);  // nothing was compared before
    for (index_t l = 0; l < layers; ++l) {
      std::vector<float> now;
      for (int i = 0; i < 39; ++i) {
        const bool moves = d.chance(0.1 + 0.15 * l);
        for (int j = 0; j < width; ++j) {
          // Positions that do not move keep their row: many changes are exactly 0.
          const float old = stored[std::size_t(l)][std::size_t(i * width + j)];
          now.push_back(moves || step == 0 ? d.real(-1.0, 1.0) : old);
        }
      }
      const layer_choice choice =
          pass.at_layer(l,
                        host_hidden<float>(now.data(), 39, width),
                        host_state<float>(stored[std::size_t(l)].data(), 39, width));
      EXPECT_EQ(stored[std::size_t(l)], now);
      if (step > 0) {
        const std::set<index_t> near = windows(committed, rule.window, shape.length);
        const changes& c = seen.at(l);
        const index_t n = shares[std::size_t(l)];
        EXPECT_EQ(std::set<index_t>(choice.positions.begin(), choice.positions.end()),
                  expected(c, n, near))
            << "step " << step << ", layer " << l << ", budget " << n;
        different += top_of_all(c, n, near) != top_of_others(c, n, near) ? 1 : 0;
      }
    }
    std::vector<float> logits;
    for (std::size_t i = 0; i < pass.rows().size() * 10; ++i) {
      logits.push_back(d.real(-2.0, 2.0));
    }
    session.supply(host_logits<float>(logits.data(), static_cast<index_t>(pass.rows().size()), 10));
    committed.clear();
    for (const commit_entry& c : session.committed()) {
      committed.push_back(c.position);
    }
  }
  EXPECT_EQ(session.report().end, ending::complete);
  return different;
}

TEST(CacheBudgetChoice, ByDefaultIsTheTopOfAllAndTheWindow) {
  int different = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    dice d(seed + 50);
    cache_budget rule;
    rule.budget = d.within(0, 14);
    rule.window = d.within(0, 12);
    different += expect_choices(rule, seed, top_of_all);
  }
  EXPECT_GT(different, 300) << "the scopes do not differ in what this test draws";
}

TEST(CacheBudgetChoice, OutsideTheWindowSpendsTheBudgetOnTheOthers) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    dice d(seed + 90);
    cache_budget rule{.scope = budget_scope::outside_window};
    rule.budget = d.within(0, 14);
    rule.window = d.within(0, 12);
    expect_choices(rule, seed, top_of_others);
  }
}

}  // namespace
}  // namespace unmask::testing::budget_test
