// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A token drawn while its row is read: the right distribution, and one outcome for every order in
// which the parts of a row are put together.
#include <unmask/stats/canonical.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "oracles/oracle.hpp"

namespace unmask::testing {
namespace {

constexpr statistics drawn = stat::sampled;

TEST(draw_walk, stops_at_the_weight_that_the_target_falls_on) {
  dice d(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<float> weights;
    for (index_t i = d.within(1, 70); i > 0; --i) {
      weights.push_back(d.chance(0.3) ? 0.0F : static_cast<float>(d.real(0.0, 2.0)));
    }
    weights[static_cast<std::size_t>(d.within(0, static_cast<index_t>(weights.size()) - 1))] = 1.0F;
    float total = 0.0F;
    for (const float w : weights) {
      total += w;
    }
    // 1 is what a uniform number next to 1 times a total may round to.
    const float target = d.chance(0.1) ? total : static_cast<float>(d.real(0.0, 1.0)) * total;
    canonical::draw_walk walk{target};
    for (std::size_t i = 0; i < weights.size(); ++i) {
      walk.pass(static_cast<index_t>(i), weights[i]);
    }
    std::size_t expected = 0;
    float before = 0.0F;
    for (std::size_t i = 0; i < weights.size() && before <= target; before += weights[i++]) {
      expected = weights[i] > 0.0F ? i : expected;
    }
    ASSERT_EQ(walk.index, static_cast<index_t>(expected));
    ASSERT_GT(weights[static_cast<std::size_t>(walk.index)], 0.0F);
  }
}

TEST(draw, falls_on_each_column_as_often_as_its_probability_says) {
  // Three chunks with different shares, 12 columns that matter.
  std::vector<float> z(5000, -math::infinity());
  std::vector<std::size_t> columns = {0, 1, 63, 64, 700, 2047, 2048, 2111, 3000, 4095, 4096, 4999};
  for (std::size_t i = 0; i < columns.size(); ++i) {
    z[columns[i]] = 0.4F * static_cast<float>(i) - 1.0F;
  }
  for (const float temperature : {1.0F, 0.6F, 2.5F}) {
    constexpr int draws = 5000;
    std::vector<int> hits(z.size(), 0);
    for (int i = 0; i < draws; ++i) {
      const draw_request draw{{.seed = 77, .step = i}, temperature};
      ++hits[static_cast<std::size_t>(canonical_record<drawn>(z, 0, draw).drawn)];
    }
    double total = 0.0;
    for (const std::size_t c : columns) {
      total += std::exp(static_cast<double>(z[c]) / static_cast<double>(temperature));
    }
    double chi_square = 0.0;
    int counted = 0;
    for (const std::size_t c : columns) {
      const double expected =
          draws * std::exp(static_cast<double>(z[c]) / static_cast<double>(temperature)) / total;
      chi_square += (hits[c] - expected) * (hits[c] - expected) / expected;
      counted += hits[c];
    }
    EXPECT_EQ(counted, draws);
    EXPECT_LT(chi_square, 31.26) << temperature;  // 11 degrees of freedom, 1 in 1,000
  }
}

// Chunks with a NaN, with +inf, without a finite column: whatever the order of the merges, the draw
// is the same, bit for bit.
TEST(draw, does_not_depend_on_the_order_of_the_merges) {
  dice d(3);
  int troubled = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<record<drawn>> parts;
    const float temperature = d.chance(0.5) ? 1.0F : 0.7F;
    for (index_t chunk = 0; chunk < 4; ++chunk) {
      std::vector<float> z;
      for (int j = 0; j < 70; ++j) {
        z.push_back(static_cast<float>(d.real(-3.0, 3.0)));
      }
      const int kind = d.within(0, 4);
      if (kind == 0) {
        z[5] = math::from_bits(0x7fc00000U);
      } else if (kind == 1) {
        z[5] = math::infinity();
      } else if (kind == 2) {
        std::fill(z.begin(), z.end(), -math::infinity());
      }
      troubled += kind <= 2 ? 1 : 0;
      const draw_request draw{{.seed = 4, .step = round}, temperature};
      parts.push_back(canonical::fold_chunk<drawn>(z.data(), 70, 2048 * chunk, draw));
    }
    std::vector<int> order = {0, 1, 2, 3};
    std::vector<record<drawn>> results;
    do {
      row_accumulator<drawn> sum;
      for (const int i : order) {
        sum.merge(row_accumulator<drawn>{parts[static_cast<std::size_t>(i)]});
      }
      results.push_back(sum.finish());
    } while (std::next_permutation(order.begin(), order.end()));
    for (const record<drawn>& r : results) {
      ASSERT_EQ(identity(r.key), identity(results[0].key)) << round;
      ASSERT_EQ(r.drawn, results[0].drawn) << round;
      ASSERT_EQ(identity(r.drawn_logit), identity(results[0].drawn_logit)) << round;
    }
  }
  EXPECT_GT(troubled, 500);
}

// A key that is no number cannot come from a chunk; should one come from elsewhere, it loses.
TEST(draw, is_never_won_by_a_key_that_is_not_a_number) {
  const float keys[] = {math::from_bits(0x7fc00000U), -math::infinity(), -3.0F, 2.0F};
  for (const float a : keys) {
    for (const float b : keys) {
      record<drawn> x = record<drawn>::empty();
      record<drawn> y = x;
      x.key = a;
      x.drawn = 7;
      y.key = b;
      y.drawn = 5;
      row_accumulator<drawn> one{x};
      one.merge(row_accumulator<drawn>{y});
      row_accumulator<drawn> other{y};
      other.merge(row_accumulator<drawn>{x});
      EXPECT_EQ(one.finish().drawn, other.finish().drawn);
      if (math::is_nan(a) != math::is_nan(b)) {
        EXPECT_EQ(one.finish().drawn, math::is_nan(a) ? 5 : 7);
      }
    }
  }
}

}  // namespace
}  // namespace unmask::testing
