// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// stat::top3_mass against its formula: sort the softmax of a row, add the first three.
#include <unmask/host/read_row.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/stats/row.hpp>
#include <unmask/step/candidate.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "oracles/oracle.hpp"
#include "support/instruction_sets.hpp"
#include "support/scripted_rows.hpp"
#include "support/three_hold.hpp"

namespace unmask::testing::top3_mass_test {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
using top3 = record<stat::top3_mass>;

[[nodiscard]] double formula(std::vector<float> z) {
  std::sort(z.begin(), z.end(), std::greater{});
  double total = 0.0;
  double first = 0.0;
  for (std::size_t j = 0; j < z.size(); ++j) {
    const double e = std::exp(static_cast<double>(z[j]) - static_cast<double>(z[0]));
    total += e;
    first += j < 3 ? e : 0.0;
  }
  return first / total;
}

[[nodiscard]] top3 read(const std::vector<float>& z,
                        host::instruction_set level = host::best_instruction_set()) {
  return host::read_row<stat::top3_mass>(placed_row<float>(z, 0).input(), identity{}, level);
}

[[nodiscard]] top3 pushed(const std::vector<float>& z) {
  row_accumulator<stat::top3_mass> sum;
  for (std::size_t v = 0; v < z.size(); ++v) {
    sum.push(z[v], static_cast<token_id>(v));
  }
  return sum.finish();
}

TEST(top3_mass, is_the_formula) {
  dice d(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<float> z;
    for (index_t v = d.within(1, round < 250 ? 100 : 9000); v > 0; --v) {
      z.push_back(d.chance(0.1) ? -inf : (d.chance(0.3) ? 2.0F : d.real(-8, 8)));
    }
    z.back() = 1.0F;                                            // one at least is there
    const double tolerance = 3 * sum_tolerance(z.size()) * 20;  // logits are at most 16 apart
    EXPECT_NEAR(read(z).top3_mass(), formula(z), tolerance);
    if (z.size() <= 100) {
      EXPECT_NEAR(pushed(z).top3_mass(), formula(z), 1e-5);
    }
  }
}

TEST(top3_mass, of_three_tokens_or_fewer_is_all_of_it) {
  for (const std::vector<float>& z : {std::vector{-7.5F},
                                      std::vector{1.0F, 3.0F},
                                      std::vector{0.5F, 0.5F},
                                      std::vector{-2.0F, 4.0F, 3.75F},
                                      std::vector{1.0F, 1.0F, 1.0F},
                                      std::vector{-inf, 2.0F, -inf, -3.0F, -inf, 1.5F}}) {
    for (const host::instruction_set level : instruction_sets()) {
      EXPECT_NEAR(read(z, level).top3_mass(), 1.0F, 3e-7F);
      EXPECT_LE(read(z, level).top3_mass(), 1.0F);
    }
    EXPECT_NEAR(pushed(z).top3_mass(), 1.0F, 3e-7F);
  }
  EXPECT_EQ(read({-7.5F}).top3_mass(), 1.0F);
}

TEST(top3_mass, counts_ties_as_often_as_they_are_there) {
  EXPECT_NEAR(read({1.0F, 1.0F, 1.0F, 1.0F, 1.0F}).top3_mass(), 0.6F, 1e-7F);
  EXPECT_NEAR(read(std::vector<float>(6000, -2.0F)).top3_mass(), 0.0005F, 1e-9F);
  const float e = std::exp(-1.0F);
  EXPECT_NEAR(read({0.0F, -1.0F, 0.0F, -1.0F, -1.0F}).top3_mass(), (2 + e) / (2 + 3 * e), 1e-6F);
  EXPECT_EQ(bits_of(read({5.0F, 0.0F, -0.0F}).next[0]), bits_of(read({5.0F, -0.0F, 0.0F}).next[0]));
}

TEST(top3_mass, of_a_row_with_a_nan_or_nothing_belongs_to_an_invalid_record) {
  for (const std::vector<float>& z : {std::vector{1.0F, nan, 4.0F},
                                      std::vector{-inf, -inf},
                                      std::vector{inf, 1.0F},
                                      std::vector{inf, inf, 0.0F}}) {
    EXPECT_FALSE(read(z).valid());
    EXPECT_FALSE(pushed(z).valid());
  }
}

TEST(top3_mass, has_its_three_columns_wherever_they_are) {
  // In one chunk, in three, behind chunks that seemed to decide it.
  dice d(2);
  for (int round = 0; round < 60; ++round) {
    std::vector<float> z =
        hard_row<float>(scene::ties, 5 * 2048 + 100, static_cast<std::uint64_t>(round));
    std::vector<float> high = {20.0F, 19.0F, 18.5F};
    for (const float x : high) {
      z[static_cast<std::size_t>(d.within(0, static_cast<index_t>(z.size()) - 1))] = x;
    }
    std::partial_sort_copy(z.begin(), z.end(), high.begin(), high.end(), std::greater{});
    for (const host::instruction_set level : instruction_sets()) {
      const top3 r = read(z, level);
      ASSERT_EQ(r.best, high[0]);
      ASSERT_EQ(r.next[0], high[1]);
      ASSERT_EQ(r.next[1], high[2]);
    }
  }
}

TEST(top3_mass, merges_in_any_grouping_and_order_to_the_same_columns) {
  dice d(3);
  for (int round = 0; round < 300; ++round) {
    const scene kind = every_scene[static_cast<std::size_t>(round) % std::size(every_scene)];
    const auto z = hard_row<float>(kind, 40, static_cast<std::uint64_t>(round));
    const top3 expected = pushed(z);
    std::vector<row_accumulator<stat::top3_mass>> parts;
    for (const index_t j : d.permutation(40)) {
      parts.emplace_back();
      parts.back().push(z[static_cast<std::size_t>(j)], j);
    }
    while (parts.size() > 1) {
      const auto a = static_cast<std::size_t>(d.within(0, static_cast<index_t>(parts.size()) - 2));
      parts[a].merge(parts.back());
      parts.pop_back();
    }
    const top3 r = parts[0].finish();
    EXPECT_EQ(r.best, expected.best);
    EXPECT_EQ(bits_of(r.next[0]), bits_of(expected.next[0]));
    EXPECT_EQ(bits_of(r.next[1]), bits_of(expected.next[1]));
  }
}

TEST(top3_mass, follows_edits_of_tracked_tokens_and_a_raised_best) {
  const std::vector<float> z = {1.0F, 4.0F, 2.0F, 3.5F, -1.0F, 2.5F};
  const token_id tokens[] = {2, 4};
  float logits[] = {2.0F, -1.0F};
  std::vector<float> others = z;
  others[2] = others[4] = -inf;
  revisable_row<stat::top3_mass> row(read(others), {tokens, logits, 2});
  EXPECT_NEAR(row.total().top3_mass(), formula(z), 1e-6);
  row.add(4, 4.25F);
  row.add(1, 0.5F);  // the best, which is not tracked
  EXPECT_NEAR(row.total().top3_mass(), formula({1.0F, 4.5F, 2.0F, 3.5F, 3.25F, 2.5F}), 1e-6);
}

TEST(top3_mass, of_a_ranked_last_position_is_nothing) {
  EXPECT_EQ(step::worst_record(read({1.0F, 4.0F, 2.0F, 3.5F})).top3_mass(), 0.0F);
}

TEST(top3_mass, is_read_by_a_part_of_a_user) {
  // Rows of eight columns, the last the mask: positions differ in how flat they are.
  const script rows = [](const segment&, index_t position) {
    std::vector<float> z(8, 0.0F);
    for (std::size_t v = 0; v < 3; ++v) {
      z[v] = static_cast<float>(position);
    }
    z[7] = -inf;
    return z;
  };
  for (const float threshold : {0.5F, 0.9F, 0.99F}) {
    const model_info model{.vocab = 8, .mask_token = 7};
    std::vector<token_id> x(6, 7);
    session s{
        policy{by_confidence{}, three_hold{threshold}}, model, x, sequence_shape{.length = 6}};
    ASSERT_TRUE(decide_once(s, x, rows));
    for (index_t at = 0; at < 6; ++at) {
      const bool committed = formula(rows({}, at)) >= static_cast<double>(threshold);
      const bool is_best = at == 5;  // the highest-ranked always commits
      EXPECT_EQ(x[static_cast<std::size_t>(at)] != 7, committed || is_best) << at;
    }
  }
}

}  // namespace
}  // namespace unmask::testing::top3_mass_test
