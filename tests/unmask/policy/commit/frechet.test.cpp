// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/commit/finish.hpp>
#include <unmask/policy/commit/frechet.hpp>
#include <unmask/policy/ranking.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <vector>

#include "support/dice.hpp"
#include "support/fixed_rows.hpp"

namespace unmask::testing::frechet_test {
namespace {

std::vector<double> random_confidences(dice& d) {
  std::vector<double> all;
  const double least = d.real(0.3, 0.95);
  for (int n = d.within(1, 12); n > 0; --n) {
    all.push_back(d.real(least, 0.999));
  }
  return all;
}

// Number of tokens that the first pass commits.
template <class Rule>
std::size_t first_pass(const Rule& rule, const std::vector<double>& confidences) {
  return decode_confidences(policy{by_confidence{}, rule}, confidences, 0, 1).positions[0].size();
}

TEST(frechet, commits_the_prefix_of_the_formula) {
  dice d(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<double> c = random_confidences(d);
    const double margin = d.real(-2, 1);
    const std::size_t found = first_pass(frechet{static_cast<float>(margin)}, c);
    std::sort(c.begin(), c.end(), std::greater<>());
    double sum = 0.0;
    std::size_t wanted = 1;
    bool near = false;
    for (std::size_t k = 1; k <= c.size(); ++k) {
      sum += c[k - 1];
      const double score = sum - static_cast<double>(k - 1) - (1.0 - c[k - 1]);
      wanted = k > 1 && score > margin ? k : wanted;
      near = near || std::abs(score - margin) < 1e-4;
    }
    if (!near) {
      EXPECT_EQ(found, wanted) << "margin " << margin;
    }
  }
}

// Where rank n has a confidence of 1 - f / (n + 1) or more, so have the better ones.
TEST(frechet, commits_all_that_factor_commits) {
  dice d(2);
  std::size_t more = 0;
  for (int round = 0; round < 300; ++round) {
    const std::vector<double> c = random_confidences(d);
    const double f = d.real(0, 2);
    const std::size_t by_factor = first_pass(factor{static_cast<float>(f - 1e-4)}, c);
    const std::size_t by_frechet = first_pass(frechet{static_cast<float>(1 - f)}, c);
    EXPECT_GE(by_frechet, by_factor) << f;
    more += by_frechet > by_factor ? 1 : 0;
  }
  EXPECT_GT(more, 10U);
}

TEST(finish, commits_everything_from_the_product_on) {
  dice d(3);
  std::size_t finished = 0;
  for (int round = 0; round < 300; ++round) {
    const std::vector<double> c = random_confidences(d);
    const double low = d.real(0, 1);
    double product = 1.0;
    for (const double x : c) {
      product *= x;
    }
    if (std::abs(product - low) > 1e-4) {
      const std::size_t found = first_pass(finish{.high = 1.0F, .low = static_cast<float>(low)}, c);
      EXPECT_EQ(found, product > low ? c.size() : 1U) << low;
      finished += product > low ? 1 : 0;
    }
  }
  EXPECT_GT(finished, 20U);
}

}  // namespace
}  // namespace unmask::testing::frechet_test
