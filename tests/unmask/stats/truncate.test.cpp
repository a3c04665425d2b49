// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Truncation beside a row that is sorted and walked: where the kept columns end, whichever way it
// is found, and what is drawn of them.
#include <unmask/core/thread_group.hpp>
#include <unmask/stats/last_key.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <vector>

#include "oracles/naive_truncation.hpp"
#include "oracles/oracle.hpp"
#include "support/dice.hpp"
#include "support/random_draw_key.hpp"

namespace unmask::testing::truncate_test {
namespace {

using canonical::mass_units;
using canonical::row_limits;

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr mass_units no_limit = ~mass_units{0};

using columns = std::vector<ranked_token>;

/// The columns of a row with a finite logit, in the row's order.
columns sorted(columns row) {
  std::erase_if(row, [](const ranked_token& c) { return !(c.logit > -inf); });
  std::ranges::sort(row, [](const ranked_token& a, const ranked_token& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  });
  return row;
}

/// Number of the first columns that a walk along the sorted row keeps.
index_t walked(const columns& row, const row_limits& limits) {
  mass_units before = 0;
  index_t kept = 0;
  for (const ranked_token& c : row) {
    if (kept > 0 &&
        (kept >= limits.tokens || before > limits.mass || c.logit - limits.best < limits.depth)) {
      break;
    }
    before += limits.mass_of(c.logit);
    ++kept;
  }
  return kept;
}

/// Few different logits, so that some tie, and tokens [first, first + count).
columns random_columns(dice& d, index_t count, token_id first = 0) {
  const bool coarse = d.chance(0.6);
  const double absent = d.chance(0.3) ? 0.5 : 0.0;
  columns row;
  for (index_t j = 0; j < count; ++j) {
    const float z = coarse ? static_cast<float>(d.within(-2, 2)) : d.real(-5, 5);
    row.push_back({j > 0 && d.chance(absent) ? -inf : z, first + j});
  }
  return row;
}

row_limits random_limits(dice& d, const columns& row) {
  row_limits limits;
  limits.best = -inf;
  for (const ranked_token& c : row) {
    limits.best = std::max(limits.best, c.logit);
  }
  limits.depth = d.chance(0.3) ? d.real(-6, 0) : -inf;
  limits.tokens = d.chance(0.5) ? d.within(1, static_cast<index_t>(row.size()) + 1) : no_token;
  limits.tokens = limits.tokens == no_token ? 1 << 30 : limits.tokens;
  mass_units all = 0;
  for (const ranked_token& c : row) {
    all += c.logit > -inf ? limits.mass_of(c.logit) : 0;
  }
  // To the unit: the mass of the first columns, which does not exceed itself.
  const columns order = sorted(row);
  mass_units some = 0;
  for (index_t i = d.within(0, static_cast<index_t>(order.size())); i > 0; --i) {
    some += limits.mass_of(order[static_cast<std::size_t>(i - 1)].logit);
  }
  limits.mass = d.chance(0.3)   ? no_limit
                : d.chance(0.5) ? some
                                : static_cast<mass_units>(d.real(0, 1) * static_cast<float>(all));
  return limits;
}

TEST(row_limits, are_those_of_the_rules) {
  const row_limits half = row_limits::of({.tokens = 7, .mass = 0.5F, .ratio = 0.25F}, 3.0F, 6.0F);
  EXPECT_EQ(half.best, 3.0F);
  EXPECT_EQ(half.tokens, 7);
  EXPECT_EQ(half.mass, mass_units{3} << 38U);  // .5 of 6 times the best token's
  EXPECT_NEAR(half.depth, std::log(0.25), 1e-7);
  const row_limits none = row_limits::of({}, 3.0F, 6.0F);
  EXPECT_EQ(none.mass, no_limit);
  EXPECT_EQ(none.depth, -inf);
  EXPECT_EQ(row_limits::of({.mass = 0.0F}, 0.0F, 2.0F).mass, 0U);
  EXPECT_EQ(row_limits::of({.ratio = 1.0F}, 0.0F, 2.0F).depth, 0.0F);
}

TEST(row_limits, of_a_number_too_large_or_too_small_exclude_nothing) {
  EXPECT_EQ(row_limits::of({.mass = 0.5F}, 0.0F, 0x1p26F).mass, no_limit);
  const float below = std::nextafter(0x1p26F, 0.0F);
  EXPECT_EQ(row_limits::of({.mass = 0.5F}, 0.0F, below).mass,
            static_cast<mass_units>(static_cast<double>(below) * 0x1p37));
  EXPECT_EQ(row_limits::of({.mass = std::nextafter(1.0F, 0.0F)}, 0.0F, 1.0F).mass,
            (mass_units{1} << 38U) - (mass_units{1} << 14U));
  EXPECT_EQ(row_limits::of({.ratio = 1e-37F}, 0.0F, 1.0F).depth, -inf);
  EXPECT_NEAR(row_limits::of({.ratio = 1.5e-37F}, 0.0F, 1.0F).depth, std::log(1.5e-37), 1e-4);
}

TEST(row_limits, keep_columns_down_to_the_depth_itself) {
  row_limits limits{.best = 0.0F, .depth = -1.5F};
  EXPECT_TRUE(limits.reaches(0.0F));
  EXPECT_TRUE(limits.reaches(-1.5F));
  EXPECT_FALSE(limits.reaches(std::nextafter(-1.5F, -2.0F)));
  limits.depth = -inf;
  EXPECT_TRUE(limits.reaches(-3e38F));
  EXPECT_FALSE(limits.reaches(-inf));
}

TEST(row_limits, weigh_a_column_in_parts_of_the_best_one) {
  const row_limits limits{.best = 5.0F};
  EXPECT_EQ(limits.mass_of(5.0F), mass_units{1} << 38U);
  for (const float below : {0.1F, 1.0F, 7.5F, 15.0F}) {
    const double exact = std::exp(static_cast<double>(5.0F - below) - 5.0) * 0x1p38;
    // The bound of exp_nonpositive, with the rounding of the difference; and a unit is cut off.
    EXPECT_NEAR(static_cast<double>(limits.mass_of(5.0F - below)), exact, 1 + exact * 1e-6);
  }
  EXPECT_EQ(limits.mass_of(-100.0F), 0U);
}

TEST(row_limits, end_a_row_behind_its_tokens_or_its_mass) {
  const row_limits limits{.mass = 100, .tokens = 4};
  EXPECT_FALSE(limits.end_after(3, 100));
  EXPECT_TRUE(limits.end_after(3, 101));
  EXPECT_TRUE(limits.end_after(4, 0));
  EXPECT_TRUE(limits.end_after(5, 0));
}

TEST(kept_of, is_the_end_of_the_walk_where_the_held_columns_show_it) {
  dice d(1);
  int known = 0;
  int unknown = 0;
  for (int round = 0; round < 20000; ++round) {
    const columns row = random_columns(d, d.within(1, 14));
    const row_limits limits = random_limits(d, row);
    // Some columns are tracked: they are in the head, whatever their logit, and not held.
    held_list<6> held;
    held_list<20> head;
    for (const ranked_token& c : row) {
      if (d.chance(0.8)) {
        held.push(c.logit, c.token);
      } else {
        head.push(c.logit, c.token);
      }
    }
    head.merge(held);
    std::vector<mass_units> masses;
    for (index_t i = 0; i < head.size(); ++i) {
      masses.push_back(limits.mass_of(head[i].logit));
    }
    const columns order = sorted(row);
    const index_t end = walked(order, limits);
    // The columns up to the last held one are known, and all if not even the list is full.
    index_t in_sight = static_cast<index_t>(order.size());
    if (held.full()) {
      in_sight = 0;
      while (order[static_cast<std::size_t>(in_sight)].token != held[5].token) {
        ++in_sight;
      }
      ++in_sight;
    }
    mass_units before = 0;
    for (index_t i = 0; i < end; ++i) {
      before += limits.mass_of(order[static_cast<std::size_t>(i)].logit);
    }
    const bool shows = !held.full() || end < in_sight ||
                       (end == in_sight && (end >= limits.tokens || before > limits.mass));
    ASSERT_EQ(canonical::kept_of(head, held, masses.data(), limits), shows ? end : -1) << round;
    ++(shows ? known : unknown);
  }
  EXPECT_GT(known, 2000);
  EXPECT_GT(unknown, 2000);
}

/// Checks the key of the last kept column against the walk, with digits of some size.
template <int Digit>
void expect_last_key(const columns& row, token_id end, const row_limits& limits, dice& d) {
  const auto bins = std::make_unique<canonical::key_bins<Digit>>();
  const canonical::value_bins values{d.chance(0.5) ? limits.best : d.real(-6, 6),
                                     d.one_of(std::vector<float>{1e-3F, 0.5F, 4.0F, 100.0F, 1e6F}),
                                     canonical::key_bins<Digit>::size};
  int sweeps = 0;
  const std::uint64_t last = canonical::last_key_of(
      serial{}, limits, end, values, *bins, [&](float least, const auto& use) {
        ++sweeps;
        for (const std::int32_t i : d.permutation(static_cast<std::int32_t>(row.size()))) {
          const ranked_token& c = row[static_cast<std::size_t>(i)];
          if (c.logit >= least || d.chance(0.5)) {
            use(c.logit, c.token);
          }
        }
      });
  const columns order = sorted(row);
  const index_t kept = walked(order, limits);
  std::set<token_id> expected;
  for (index_t i = 0; i < kept; ++i) {
    expected.insert(order[static_cast<std::size_t>(i)].token);
  }
  std::set<token_id> actual;
  for (const ranked_token& c : row) {
    if (limits.reaches(c.logit) && rank_key(c.logit, c.token) >= last) {
      actual.insert(c.token);
    }
  }
  ASSERT_EQ(actual, expected) << "digits of " << Digit << " bits, end " << end;
  EXPECT_LE(sweeps, 3 + (32 + Digit - 1) / Digit * 2);
}

TEST(value_bins, have_edges_that_none_of_their_logits_passes) {
  dice d(5);
  for (int round = 0; round < 20000; ++round) {
    const canonical::value_bins bins{
        d.real(-1, 1) * d.one_of(std::vector<float>{0.0F, 1.0F, 30.0F, 1e6F, 1e30F}),
        d.one_of(std::vector<float>{1e-4F, 0.03F, 3.0F, 24.0F, 1e5F}),
        d.one_of(std::vector<index_t>{16, 256, 2048})};
    const float best = bins.from + d.real(0, 9);
    const auto near = static_cast<float>(d.within(0, bins.size)) / bins.per_logit;
    float z = std::min(
        bins.from - near + d.real(-1, 1) * d.one_of(std::vector<float>{0.0F, 1e-6F, 2.0F}), best);
    const index_t bin = bins.of(z);
    ASSERT_TRUE(bin >= 0 && bin < bins.size);
    ASSERT_LE(bins.least_of(bin), z) << bin;
    ASSERT_GE(bins.most_of(bin, best), z) << bin;
    ASSERT_LE(bin, bins.of(std::nextafter(z, -inf))) << "a lower logit has a later bin";
  }
}

TEST(last_key_of, ends_a_row_where_the_walk_does) {
  dice d(2);
  for (int round = 0; round < 1500; ++round) {
    const index_t count = d.within(1, 40);
    const token_id first = d.chance(0.5) ? 0 : d.within(0, 5000);
    const columns row = random_columns(d, count, first);
    const row_limits limits = random_limits(d, row);
    expect_last_key<11>(row, first + count, limits, d);
    expect_last_key<8>(row, first + count, limits, d);
    expect_last_key<5>(row, first + count, limits, d);
    ASSERT_FALSE(HasFatalFailure()) << round;
  }
}

// Tokens of one logit differ by the digits of their number alone, of which the last has the most.
TEST(last_key_of, counts_equal_columns_up_to_the_last_token) {
  dice d(3);
  for (const index_t count : {1, 2, 3, 4, 5, 8, 9, 16, 17, 31, 32, 33}) {
    for (const token_id first : {0, 1, 31, 2015, 2048 * 7}) {
      columns row;
      for (index_t j = 0; j < count; ++j) {
        row.push_back({-0.5F, first + j});
      }
      for (index_t tokens = 1; tokens <= count; ++tokens) {
        const row_limits limits{.best = -0.5F, .depth = -inf, .mass = no_limit, .tokens = tokens};
        expect_last_key<11>(row, first + count, limits, d);
        expect_last_key<4>(row, first + count, limits, d);
        ASSERT_FALSE(HasFatalFailure()) << count << " from " << first << ", kept " << tokens;
      }
    }
  }
}

TEST(last_key_of, has_an_end_without_columns) {
  dice d(4);
  expect_last_key<11>({}, 0, {.best = 0.0F, .mass = no_limit, .tokens = 3}, d);
  expect_last_key<11>({{-inf, 0}}, 1, {.best = 0.0F, .mass = no_limit, .tokens = 3}, d);
}

TEST(kept_race, is_won_by_the_largest_key_and_the_lower_token) {
  canonical::kept_race race;
  const auto join = [&race](float key, float logit, token_id token) {
    race.join(key, logit, token);
  };
  join(1.0F, 10.0F, 5);
  join(0.5F, 11.0F, 2);
  EXPECT_EQ(race.winner.token, 5);
  join(1.0F, -0.0F, 4);
  EXPECT_EQ(race.winner.token, 4);
  EXPECT_EQ(bits_of(race.winner.logit), bits_of(0.0F));  // -0 counts as +0
  join(1.0F, 12.0F, 6);
  EXPECT_EQ(race.winner.token, 4);
  join(2.0F, 13.0F, 9);
  record<stat::sampled> row = record<stat::sampled>::empty();
  race.write_to(row);
  EXPECT_EQ(row.key, 2.0F);
  EXPECT_EQ(row.drawn, 9);
  EXPECT_EQ(row.drawn_logit, 13.0F);
}

TEST(kept_race, without_a_participant_draws_nothing) {
  record<stat::sampled> row = record<stat::sampled>::empty();
  row.key = 3.0F;
  canonical::kept_race{}.write_to(row);
  EXPECT_EQ(row.key, -inf);
}

TEST(kept_totals, are_the_sums_in_any_grouping) {
  constexpr statistics s = stat::confidence | stat::truncated;
  canonical::kept_totals<s> some;
  some.join(1.0F, 100);
  some.join(-2.0F, 7);
  canonical::kept_totals<s> others;
  others.join(0.5F, 30);
  some.merge(others);
  some.merge({});
  EXPECT_EQ(some.tokens, 3);
  EXPECT_EQ(some.mass, 137U);
  EXPECT_EQ(some.least, -2.0F);

  canonical::kept_totals<s> half;
  half.join(1.0F, mass_units{1} << 38U);
  half.join(0.0F, mass_units{1} << 37U);
  record<s> row = record<s>::empty();
  row.best = 1.0F;
  row.rest = 2.0F;
  half.write_to(row);
  EXPECT_EQ(row.kept_count, 2);
  EXPECT_FLOAT_EQ(row.kept_share, 0.5F);
  EXPECT_FLOAT_EQ(row.least_share, static_cast<float>(std::exp(-1.0) / 3.0));
  row.rest = 0.25F;
  half.write_to(row);
  EXPECT_EQ(row.kept_share, 1.0F);  // rounding makes no probability above 1
}

TEST(renormalise, replaces_the_sums_alone) {
  constexpr statistics s = every_sum | stat::sampled | stat::truncated;
  record<s> row = record<s>::empty();
  row.best = 3.0F;
  row.rest = 9.0F;
  row.key = 5.0F;
  row.drawn = 8;
  row.kept_count = 2;
  row_accumulator<canonical::row_sums<s>> kept;
  kept.push(3.0F, 1);
  kept.push(2.0F, 4);
  canonical::renormalise(row, kept.finish());
  EXPECT_EQ(row.token, 1);
  EXPECT_EQ(row.second, 2.0F);
  EXPECT_NEAR(row.rest, std::exp(-1.0), 1e-6);
  EXPECT_EQ(row.key, 5.0F);
  EXPECT_EQ(row.drawn, 8);
  EXPECT_EQ(row.kept_count, 2);
}

TEST(cut_held, keeps_and_draws_what_the_definition_does) {
  constexpr statistics s = every_sum | stat::sampled | stat::truncated;
  dice d(5);
  int compared = 0;
  int cut = 0;
  for (int round = 0; round < 4000; ++round) {
    columns row = random_columns(d, d.within(1, 30));
    truncation rules;
    rules.tokens = d.chance(0.5) ? d.within(1, 12) : 1000;
    rules.mass = d.chance(0.5) ? d.real(0, 1) : 1.0F;
    rules.ratio = d.chance(0.3) ? d.real(0.01, 0.5) : 0.0F;
    rules.renormalises = d.chance(0.5);
    draw_request draw;
    draw.key = random_draw_key(d);
    draw.temperature = d.real(0.3, 2.0);

    // Some tokens are tracked, one of them suppressed; the first one is neither.
    std::vector<token_id> tracked;
    std::vector<float> logits;
    for (const ranked_token& c : row) {
      if (c.token > 0 && d.chance(0.2)) {
        tracked.push_back(c.token);
        logits.push_back(c.logit);
      }
    }
    const token_id suppressed[] = {tracked.empty() ? 0 : d.one_of(tracked)};
    const index_t suppressed_count = tracked.empty() ? 0 : 1;
    if (suppressed_count == 1) {
      row[static_cast<std::size_t>(suppressed[0])].logit = -inf;
    }
    held_tokens held;
    row_accumulator<s> sum;
    std::vector<double> z;
    for (const ranked_token& c : row) {
      sum.push(c.logit, c.token);
      z.push_back(static_cast<double>(c.logit));
      if (std::ranges::find(tracked, c.token) == tracked.end()) {
        held.push(c.logit, c.token);
      }
    }
    const tracked_logits list{tracked.data(),
                              logits.data(),
                              static_cast<index_t>(tracked.size()),
                              suppressed,
                              suppressed_count};
    const record<s> whole = sum.finish();
    record<s> r = whole;
    canonical::head_cut<128> space;
    space.head.push(99.0F, 3);  // of the row before
    ASSERT_TRUE(canonical::cut_held<s>(serial{}, r, held, list, rules, draw, space));
    const auto expected = naive_truncate(z, rules, static_cast<double>(draw.temperature), draw.key);
    if (expected.gap < 1e-5) {
      continue;
    }
    ++compared;
    cut += expected.kept.size() < sorted(row).size() ? 1 : 0;
    ASSERT_EQ(r.kept_tokens(), static_cast<index_t>(expected.kept.size())) << round;
    ASSERT_EQ(r.drawn, expected.drawn) << round;
    EXPECT_EQ(r.drawn_logit, row[static_cast<std::size_t>(r.drawn)].logit + 0.0F);
    EXPECT_NEAR(r.kept_mass(), expected.mass, 2e-6);
    EXPECT_NEAR(r.least_kept_probability(), expected.least, 1e-6);
    if (rules.renormalises) {
      EXPECT_NEAR(r.confidence(), expected.shares[0], 2e-6);
      EXPECT_NEAR(r.margin(), expected.margin(), 2e-6);
      EXPECT_NEAR(r.entropy(), expected.entropy(), 1e-5);
      EXPECT_NEAR(r.top3_mass(), expected.top3_mass(), 2e-6);
    } else {
      EXPECT_EQ(r.rest, whole.rest);
      EXPECT_EQ(r.weighted, whole.weighted);
    }
    ASSERT_FALSE(HasFailure()) << round;
  }
  EXPECT_GT(compared, 3000);
  EXPECT_GT(cut, 1000);
}

TEST(cut_held, leaves_a_record_that_the_held_columns_do_not_determine) {
  constexpr statistics s = stat::confidence | stat::sampled | stat::truncated;
  held_tokens held;
  row_accumulator<s> sum;
  for (token_id v = 0; v < 200; ++v) {
    sum.push(1.0F, v);
    held.push(1.0F, v);
  }
  const record<s> whole = sum.finish();
  canonical::head_cut<64> space;
  for (const index_t tokens : {64, 65}) {
    record<s> r = whole;
    const bool is_known =
        canonical::cut_held<s>(serial{}, r, held, {}, {.tokens = tokens}, {}, space);
    EXPECT_EQ(is_known, tokens == 64);
    EXPECT_EQ(same_bits(r, whole), !is_known);
  }
}

TEST(kept_race, is_run_with_the_key_of_the_token_alone) {
  dice d(6);
  for (int i = 0; i < 200; ++i) {
    const draw_request draw{.key = random_draw_key(d), .temperature = d.real(0.3, 2.0)};
    const canonical::kept_race race{.best = d.real(-50, 50), .draw = draw};
    const float below = d.real(0, 9);
    const token_id token = d.within(0, 100000);
    const double exact = -static_cast<double>(below) / static_cast<double>(draw.temperature) -
                         std::log(-std::log(race_uniform(draw.key, token)));
    EXPECT_NEAR(race.key_of(race.best - below, token), exact, 1e-4);
  }
}

}  // namespace
}  // namespace unmask::testing::truncate_test
