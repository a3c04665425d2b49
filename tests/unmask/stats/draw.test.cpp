// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A token drawn while its row is read: the right distribution, and one outcome for every order in
// which the parts of a row are put together.
#include <unmask/stats/canonical.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "oracles/naive_truncation.hpp"
#include "oracles/oracle.hpp"
#include "support/random_draw_key.hpp"

namespace unmask::testing::draw_test {
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
      ASSERT_EQ(bits_of(r.key), bits_of(results[0].key)) << round;
      ASSERT_EQ(r.drawn, results[0].drawn) << round;
      ASSERT_EQ(bits_of(r.drawn_logit), bits_of(results[0].drawn_logit)) << round;
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

TEST(draw, of_a_forced_token_is_that_token_wherever_it_stands) {
  constexpr index_t count = 100;
  const auto z = hard_row<float>(scene::ordinary, count, 1);
  for (const token_id first : {0, 2048, 4096}) {
    const token_id last = first + count;
    for (const token_id forced : {first - 1, first, first + 1, first + 57, last - 1, last, 9999}) {
      if (forced < 0) {
        continue;
      }
      const draw_request draw{.key = {.seed = 1}, .temperature = 0.5F, .forced = forced};
      const auto r = canonical::fold_chunk<drawn>(z.data(), count, first, draw);
      const bool is_here = first <= forced && forced < last;
      EXPECT_EQ(r.key, is_here ? 0.0F : -math::infinity());
      EXPECT_EQ(r.drawn, is_here ? forced : no_token);
      EXPECT_EQ(r.drawn_logit, is_here ? z[static_cast<std::size_t>(forced - first)] : 0.0F);
      EXPECT_EQ(canonical::draw_key_alone(1.0F, 1.0F, forced, draw), 0.0F);
      EXPECT_EQ(canonical::draw_key_alone(1.0F, 1.0F, forced + 1, draw), -math::infinity());
    }
  }
}

TEST(draw_key, is_that_of_a_weight) {
  EXPECT_EQ(canonical::draw_key(5.0F, 1.0F, 0.0F, 1.0F), -math::infinity());
  EXPECT_EQ(canonical::draw_key(5.0F, 1.0F, -1.0F, 1.0F), -math::infinity());
  EXPECT_EQ(canonical::draw_key(5.0F, 1.0F, math::from_bits(0x7fc00000U), 1.0F), -math::infinity());
  EXPECT_EQ(canonical::draw_key(5.0F, 2.0F, 1.0F, 0.25F), 10.25F);
  EXPECT_FLOAT_EQ(canonical::draw_key(-3.0F, 0.5F, 7.0F, -2.0F),
                  static_cast<float>(-3.5 + std::log(7.0)));
}

TEST(draw_key_alone, has_random_numbers_of_its_token) {
  dice d(7);
  for (int i = 0; i < 500; ++i) {
    const draw_request draw{.key = random_draw_key(d), .temperature = d.real(0.1, 3.0)};
    const token_id token = d.within(0, 200000);
    const float x = d.real(-5, 5);
    const float weight = d.real(0.1, 3.0);
    const double exact = static_cast<double>(x) / static_cast<double>(draw.temperature) +
                         std::log(static_cast<double>(weight)) -
                         std::log(-std::log(race_uniform(draw.key, token)));
    const float key = canonical::draw_key_alone(x, weight, token, draw);
    EXPECT_NEAR(key, exact, 1e-4);
    for (const float to_beat : {key, std::nextafter(key, -9.0F), key - 1.0F, -1e30F}) {
      EXPECT_EQ(canonical::draw_key_alone(x, weight, token, draw, to_beat), key) << "could win";
    }
  }
  for (const float cold : {0.0F, -1.0F, math::from_bits(0x7fc00000U)}) {
    EXPECT_EQ(canonical::draw_key_alone(1.0F, 1.0F, 3, {.key = {}, .temperature = cold}),
              -math::infinity());
  }
}

TEST(push_alone, lets_a_column_take_part_in_sums_and_draw) {
  constexpr statistics s = stat::margin | stat::sampled;
  const draw_request draw{.key = {.seed = 3}, .temperature = 0.7F};
  row_accumulator<s> sum;
  canonical::push_alone(sum, 2.0F, 9, draw);
  EXPECT_EQ(sum.finish().drawn, 9);
  EXPECT_EQ(sum.finish().drawn_logit, 2.0F);
  EXPECT_EQ(sum.finish().key, canonical::draw_key_alone(2.0F, 1.0F, 9, draw));
  const record<s> before = sum.finish();
  canonical::push_alone(sum, -math::infinity(), 4, draw);
  EXPECT_TRUE(same_bits(sum.finish(), before));
  canonical::push_alone(sum, math::from_bits(0x7fc00000U), 5, draw);
  EXPECT_FALSE(sum.finish().valid());
  EXPECT_EQ(sum.finish().drawn, 9);
}

TEST(draw_weight, of_a_column_that_is_absent_is_0) {
  EXPECT_EQ(canonical::draw_weight(3.0F, 3.0F, 0.5F), 1.0F);
  EXPECT_NEAR(canonical::draw_weight(1.0F, 3.0F, 0.5F), std::exp(-1.0), 1e-7);
  EXPECT_GT(canonical::draw_weight(-3e38F, 3.0F, 1.0F), 0.0F);
  EXPECT_EQ(canonical::draw_weight(-math::infinity(), 3.0F, 1.0F), 0.0F);
}

TEST(weight_of_columns, is_their_sum) {
  dice d(8);
  for (const index_t count : {0, 1, 2, 63, 64, 65, 127, 128, 129, 2000, 2048}) {
    for (const float inverse : {1.0F, 0.3F, 2.0F}) {
      std::vector<float> z;
      double exact = 0.0;
      for (index_t j = 0; j < count; ++j) {
        z.push_back(d.chance(0.2) ? -math::infinity() : d.real(-4, 3));
        exact += std::exp((static_cast<double>(z.back()) - 3.0) * static_cast<double>(inverse));
      }
      z.resize(z.size() + 64, 3.0F);  // of the next chunk
      EXPECT_NEAR(canonical::weight_of_columns(z.data(), count, 3.0F, inverse),
                  exact,
                  (32 + 6 + 8 * 7) * 0x1p-24 * (exact + 1e-9))
          << count;
    }
  }
}

TEST(draw_token, differs_between_chunks_and_uses) {
  std::set<token_id> seen;
  for (token_id first = 0; first < 20 * canonical::chunk_columns;
       first += canonical::chunk_columns) {
    for (const auto use :
         {canonical::draw_use::key, canonical::draw_use::run, canonical::draw_use::column}) {
      EXPECT_TRUE(seen.insert(canonical::draw_token(first, use)).second);
    }
  }
}

TEST(draws, are_made_of_rows_that_are_not_truncated_first) {
  constexpr statistics kept = stat::sampled | stat::kept;
  held_tokens held;
  row_options row;
  EXPECT_TRUE(canonical::draws<stat::sampled>(row));
  EXPECT_TRUE(canonical::draws<kept>(row));
  EXPECT_FALSE(canonical::draws<stat::confidence>(row));
  row.held = &held;
  EXPECT_TRUE(canonical::draws<stat::sampled>(row));
  EXPECT_FALSE(canonical::draws<kept>(row));
  row.held = nullptr;
  row.draw.temperature = 0.0F;
  EXPECT_FALSE(canonical::draws<stat::sampled>(row));
}

// One chunk from its description: a key, a run of 64 columns, a column of the run.
TEST(draw_column, picks_a_run_and_a_column_by_their_weights) {
  dice d(9);
  int compared = 0;
  for (int round = 0; round < 3000; ++round) {
    const index_t count = d.chance(0.5) ? d.within(1, 200) : d.within(1, 2048);
    const token_id first = canonical::chunk_columns * d.within(0, 5);
    const double absent = d.one_of(std::vector<double>{0.0, 0.5, 0.99});
    std::vector<float> z;
    for (index_t j = 0; j < count; ++j) {
      z.push_back(d.chance(absent) ? -math::infinity() : d.real(-3, 3));
    }
    z[static_cast<std::size_t>(d.within(0, count - 1))] = 3.5F;
    draw_request draw{.key = random_draw_key(d),
                      .temperature = d.chance(0.3) ? 1.0F : d.real(0.3, 3.0)};
    const auto r = canonical::fold_chunk<drawn>(z.data(), count, first, draw);

    std::vector<double> weights;
    std::vector<double> runs(static_cast<std::size_t>((count + 63) / 64), 0.0);
    double total = 0.0;
    for (std::size_t j = 0; j < z.size(); ++j) {
      weights.push_back(
          std::exp((static_cast<double>(z[j]) - 3.5) / static_cast<double>(draw.temperature)));
      runs[j / 64] += weights[j];
      total += weights[j];
    }
    random_key key = draw.key;
    key.token = first;
    EXPECT_NEAR(r.key,
                3.5 / static_cast<double>(draw.temperature) + std::log(total) +
                    static_cast<double>(random_gumbel(key)),
                1e-4);
    double gap = infinity;
    const auto pick = [&](const std::vector<double>& of, double target) {
      std::size_t at = 0;
      double passed = 0.0;
      for (std::size_t i = 0; i < of.size(); ++i) {
        passed += of[i];
        gap = of[i] > 0.0 ? std::min(gap, std::fabs(passed - target) / total) : gap;
        if (passed > target) {
          at = i;
          break;
        }
      }
      return at;
    };
    key.token = first + 1;
    const std::size_t run = pick(runs, static_cast<double>(random_uniform(key)) * total);
    key.token = first + 2;
    const std::size_t end = std::min(z.size(), 64 * run + 64);
    const std::vector<double> own(weights.begin() + static_cast<std::ptrdiff_t>(64 * run),
                                  weights.begin() + static_cast<std::ptrdiff_t>(end));
    const std::size_t column = pick(own, static_cast<double>(random_uniform(key)) * runs[run]);
    if (gap > 1e-5) {
      ++compared;
      ASSERT_EQ(r.drawn, first + static_cast<token_id>(64 * run + column)) << round;
      ASSERT_EQ(r.drawn_logit, z[64 * run + column]);
    }

    // A chunk that does not lead needs no column.
    record<drawn> again = r;
    again.drawn = 77;
    canonical::draw_column(again, draw, z.data(), count, first, r.key);
    EXPECT_EQ(again.key, r.key);
    EXPECT_EQ(again.drawn, 77);
    canonical::draw_column(
        again, draw, z.data(), count, first, std::nextafter(r.key, -math::infinity()));
    EXPECT_EQ(again.drawn, r.drawn);
    ASSERT_FALSE(HasFailure()) << round;
  }
  EXPECT_GT(compared, 2500);
}

TEST(draw_column, weighs_a_chunk_by_the_sum_of_its_record_at_temperature_1) {
  const float z[] = {2.0F, 2.0F, 2.0F};
  for (const float temperature : {1.0F, 0.5F, 2.0F}) {
    draw_request draw{.key = {.seed = 2}, .temperature = temperature};
    record<drawn> r = record<drawn>::empty();
    r.best = 2.0F;
    r.rest = 99.0F;  // not that of the columns
    canonical::draw_column(r, draw, z, 3, 4096, -math::infinity());
    draw.key.token = canonical::draw_token(4096, canonical::draw_use::key);
    EXPECT_EQ(r.key,
              canonical::draw_key(2.0F,
                                  1.0F / temperature,
                                  temperature == 1.0F ? 100.0F : 3.0F,
                                  random_gumbel(draw.key)));
  }
}

}  // namespace
}  // namespace unmask::testing::draw_test
