// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order in which a row is summed: fixed by the columns alone.
#include <unmask/stats/canonical.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "oracles/oracle.hpp"

namespace unmask::testing::canonical_test {
namespace {

/// The same tree written as a recursion over [first, first + size) of the leaves.
record<every_sum>
node(const std::vector<record<every_sum>>& leaves, std::size_t first, std::size_t size) {
  if (size == 1) {
    return leaves[first];
  }
  const record<every_sum> left = node(leaves, first, size / 2);
  if (first + size / 2 >= leaves.size()) {
    return left;
  }
  row_accumulator<every_sum> sum{left};
  sum.merge(row_accumulator<every_sum>{node(leaves, first + size / 2, size / 2)});
  return sum.finish();
}

std::vector<record<every_sum>> some_leaves(index_t count) {
  std::vector<record<every_sum>> leaves;
  for (index_t i = 0; i < count; ++i) {
    const auto z = hard_row<float>(scene::ordinary, 40, static_cast<std::uint64_t>(i));
    leaves.push_back(canonical::fold_chunk<every_sum>(z.data(), 40, 2048 * i));
  }
  return leaves;
}

TEST(chunk_tree, is_the_binary_tree_over_the_chunks) {
  for (index_t count = 1; count <= 70; ++count) {
    const auto leaves = some_leaves(count);
    canonical::chunk_tree<every_sum> tree;
    for (const auto& part : leaves) {
      tree.push(part);
    }
    EXPECT_TRUE(same_bits(tree.finish(), node(leaves, 0, 128)));
  }
}

TEST(chunk_tree, takes_whole_runs_for_chunks) {
  for (index_t count = 1; count <= 70; ++count) {
    const auto leaves = some_leaves(count);
    for (std::size_t run = 1; run <= 64; run *= 2) {
      canonical::chunk_tree<every_sum> whole;
      for (std::size_t first = 0; first < leaves.size(); first += run) {
        canonical::chunk_tree<every_sum> part;
        for (std::size_t i = first; i < std::min(first + run, leaves.size()); ++i) {
          part.push(leaves[i]);
        }
        whole.push(part.finish());
      }
      EXPECT_TRUE(same_bits(whole.finish(), node(leaves, 0, 128)));
    }
  }
}

TEST(chunk_tree, does_not_show_what_a_reader_left_out) {
  // Chunks of few different bests, dealt to readers that know only their own.
  dice d(1);
  for (int round = 0; round < 2000; ++round) {
    const index_t readers = 1 << d.within(0, 3);
    std::vector<row_accumulator<every_sum>> met(static_cast<std::size_t>(readers));
    canonical::chunk_tree<every_sum> whole;
    canonical::chunk_tree<every_sum> saving;
    for (index_t i = 0; i < 20; ++i) {
      std::vector<float> z;
      for (int j = d.within(1, 6); j > 0; --j) {
        z.push_back(d.chance(0.3) ? static_cast<float>(d.within(-2, 2)) : d.real(-4, -2));
      }
      const auto columns = static_cast<index_t>(z.size());
      auto part = canonical::fold_chunk<every_sum>(z.data(), columns, 2048 * i);
      whole.push(part);
      const auto mine = static_cast<std::size_t>(i % readers);
      const record<every_sum> before = met[mine].finish();
      met[mine].merge(row_accumulator<every_sum>{part});
      if (!(part.best > before.best)) {
        part.token = 2048 * i;
        part.second = -math::infinity();
      }
      if (!(part.best > before.bar())) {
        static_cast<field::top3_mass&>(part) = {};
      }
      saving.push(part);
    }
    EXPECT_TRUE(same_bits(saving.finish(), whole.finish()));
  }
}

TEST(chunk_tree, of_nothing_is_the_empty_record) {
  EXPECT_TRUE(same_bits(canonical::chunk_tree<every_sum>{}.finish(), record<every_sum>::empty()));
}

TEST(sum_of_lanes, adds_by_halving) {
  float ascending[canonical::lanes];
  for (index_t i = 0; i < canonical::lanes; ++i) {
    ascending[i] = static_cast<float>(i);
  }
  EXPECT_EQ(canonical::sum_of_lanes(ascending), 64.0F * 63.0F / 2.0F);
  // 2^24 swallows a 1, so the order shows: lane 32 meets lane 0 first, lane 1 last.
  float first[canonical::lanes] = {0x1p24F, 1.0F};
  first[32] = -0x1p24F;
  EXPECT_EQ(canonical::sum_of_lanes(first), 1.0F);
  float last[canonical::lanes] = {0x1p24F, -0x1p24F, 1.0F};
  EXPECT_EQ(canonical::sum_of_lanes(last), 0.0F);
}

TEST(fold_chunk, is_accurate) {
  for (const scene kind : finite_scenes) {
    for (const index_t columns : {1, 63, 64, 65, 2048}) {
      const auto z = hard_row<float>(kind, columns, 1);
      SCOPED_TRACE(static_cast<int>(kind));
      expect_close(canonical::fold_chunk<every_sum>(z.data(), columns, 0), z);
    }
  }
}

TEST(scale, of_the_first_columns_holds_up_to_its_reach) {
  const canonical::scale s = canonical::opening_scale(3.0F);
  EXPECT_EQ(s.exponent, 4.0F);  // 3 log2(e) = 4.33
  EXPECT_EQ(s.shift, 0.0F);
  EXPECT_TRUE(canonical::reaches(s, 3.0F));
  EXPECT_TRUE(canonical::reaches(s, 16.0F * math::ln_2));
  EXPECT_FALSE(canonical::reaches(s, 16.001F * math::ln_2));
  EXPECT_FALSE(canonical::reaches(s, math::infinity()));
}

TEST(scale, is_not_chosen_by_what_is_not_a_moderate_number) {
  for (const float x : {math::infinity(), -math::infinity(), 1e6F * 1.1F, -1e30F, 3e38F}) {
    EXPECT_FALSE(canonical::opens_scale(x)) << x;
  }
  EXPECT_FALSE(canonical::opens_scale(math::from_bits(0x7fc00000U)));
  EXPECT_TRUE(canonical::opens_scale(-300.0F));
}

TEST(fold_chunk, weighs_an_only_column_exactly) {
  for (const float only : {3.5F, -0.0F, 0.3F, -77.7F, 1e-30F, 2e6F, -3e38F}) {
    const auto r = canonical::fold_chunk<every_sum>(&only, 1, 17);
    EXPECT_EQ(r.token, 17);
    EXPECT_EQ(r.rest, 0.0F) << only;
    EXPECT_EQ(r.confidence(), 1.0F);
    EXPECT_EQ(r.square, 1.0F) << only;
    EXPECT_NEAR(r.weighted, 0.0F, 1e-30F) << only;  // 63 absent columns weigh 2^-124 each
    EXPECT_EQ(r.entropy(), 0.0F);
    EXPECT_EQ(r.margin(), 1.0F);
  }
}

TEST(chunks_of, counts_the_last_one_too) {
  EXPECT_EQ(canonical::chunks_of(0), 0);
  EXPECT_EQ(canonical::chunks_of(1), 1);
  EXPECT_EQ(canonical::chunks_of(2047), 1);
  EXPECT_EQ(canonical::chunks_of(2048), 1);
  EXPECT_EQ(canonical::chunks_of(2049), 2);
  EXPECT_EQ(canonical::chunks_of(4097), 3);
}

TEST(scale, gives_the_exponent_of_a_column) {
  const canonical::scale opening = canonical::opening_scale(10.0F);
  EXPECT_EQ(opening.exponent, 14.0F);  // 10 log2(e) = 14.43
  EXPECT_NEAR(opening.bits(10.0F), 10.0 / std::log(2.0) - 14.0, 1e-6);
  EXPECT_NEAR(opening.bits(-3.0F), -3.0 / std::log(2.0) - 14.0, 2e-6);
  EXPECT_EQ(opening.bits(-1e30F), math::exp2_floor);
  EXPECT_EQ(opening.bits(-math::infinity()), math::exp2_floor);
  EXPECT_TRUE(math::is_nan(opening.bits(math::from_bits(0x7fc00000U))));
  const canonical::scale closing = canonical::closing_scale(2e6F);
  EXPECT_EQ(closing.bits(2e6F), 0.0F);
  EXPECT_NEAR(closing.bits(2e6F - 1.0F), -1.0 / std::log(2.0), 1e-6);
  EXPECT_FALSE(canonical::opens_scale(canonical::moderate));
  EXPECT_FALSE(canonical::opens_scale(-canonical::moderate));
  EXPECT_TRUE(canonical::opens_scale(std::nextafter(canonical::moderate, 0.0F)));
  EXPECT_TRUE(canonical::opens_scale(std::nextafter(-canonical::moderate, 0.0F)));
}

TEST(sums_of, are_those_of_the_columns) {
  dice d(5);
  for (const index_t columns : {1, 2, 63, 64, 65, 128, 2048}) {
    for (const float centre : {0.0F, 50.0F}) {
      const canonical::scale s = canonical::opening_scale(centre);
      std::vector<float> z;
      double sum = 0.0;
      double weighted = 0.0;
      double square = 0.0;
      double size = 0.0;
      for (index_t j = 0; j < columns; ++j) {
        z.push_back(d.chance(0.1) ? -math::infinity() : centre + d.real(-6, 4));
        const double t = static_cast<double>(z.back()) / std::log(2.0) - double{s.exponent};
        const double e = std::exp2(t);
        sum += e;
        weighted += e > 0.0 ? e * t : 0.0;
        square += e * e;
        size += e > 0.0 ? e * (1.0 + std::fabs(t)) : 0.0;
      }
      z.resize(z.size() + 64, centre);  // of the next chunk
      const auto sums = canonical::sums_of<every_sum>(z.data(), columns, s);
      // In units of 2^-24: 38 additions, 4 for the exponential, 2 |t| for t itself, which is as
      // large as the exponent before that is subtracted.
      const double unit = (42 + 2 * (8 + double{s.exponent})) * 0x1p-24;
      EXPECT_NEAR(sums.sum, sum, unit * (sum + 1e-20));
      EXPECT_NEAR(sums.weighted, weighted, unit * (size + sum * 8 + 1e-20));
      EXPECT_NEAR(sums.square, square, 2 * unit * (square + 1e-20));
      const auto fewer = canonical::sums_of<stat::confidence>(z.data(), columns, s);
      EXPECT_EQ(fewer.sum, sums.sum);
      EXPECT_EQ(fewer.weighted, 0.0F);
      EXPECT_EQ(fewer.square, 0.0F);
    }
  }
}

// 64 columns select the scale, not one more or fewer; its bits show.
TEST(fold_columns, takes_its_scale_from_the_first_64_columns) {
  dice d(6);
  int differs = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<float> z;
    for (int j = 0; j < 200; ++j) {
      z.push_back(d.real(-5, 0));
    }
    const std::size_t at = d.chance(0.5) ? 63 : 64;
    z[at] = d.real(1, 9);
    const float best = z[at];
    const float best_of_first = *std::max_element(z.begin(), z.begin() + 64);
    const auto expected = [&](float opening) {
      canonical::scale s = canonical::opening_scale(opening);
      if (!canonical::reaches(s, best)) {
        s = canonical::closing_scale(best);
      }
      const auto sums = canonical::sums_of<stat::entropy>(z.data(), 200, s);
      return canonical::chunk_record<stat::entropy>(best, static_cast<token_id>(at), 0.0F, s, sums);
    };
    const auto r = canonical::fold_columns<stat::entropy>(z.data(), 200, 0);
    EXPECT_TRUE(same_bits(r, expected(best_of_first))) << round;
    differs += at == 64 && !same_bits(r, expected(best)) ? 1 : 0;
  }
  EXPECT_GT(differs, 50);
}

TEST(fold_columns, finds_the_first_of_equal_columns_and_the_second) {
  dice d(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<float> z;
    for (int j = d.within(1, 80); j > 0; --j) {
      z.push_back(d.chance(0.2) ? -math::infinity() : static_cast<float>(d.within(-3, 3)));
    }
    const bool has_nan = d.chance(0.3);
    if (has_nan) {
      z[static_cast<std::size_t>(d.within(0, static_cast<index_t>(z.size()) - 1))] =
          math::from_bits(0x7fc00000U);
    }
    const auto r =
        canonical::fold_columns<every_sum>(z.data(), static_cast<index_t>(z.size()), 4096);
    std::vector<float> numbers;
    for (const float x : z) {
      if (x > -math::infinity()) {
        numbers.push_back(x);
      }
    }
    std::ranges::sort(numbers, std::greater{});
    EXPECT_EQ(math::is_nan(r.rest), has_nan);
    if (numbers.empty()) {
      EXPECT_EQ(r.token, no_token);
      EXPECT_EQ(r.best, -math::infinity());
    } else {
      EXPECT_EQ(r.best, numbers[0]);
      EXPECT_EQ(r.token, 4096 + (std::ranges::find(z, numbers[0]) - z.begin()));
      EXPECT_EQ(r.second, numbers.size() > 1 ? numbers[1] : -math::infinity());
      EXPECT_EQ(r.next[0], r.second);
      EXPECT_EQ(math::is_nan(r.weighted), has_nan);
      EXPECT_EQ(math::is_nan(r.square), has_nan);
    }
    ASSERT_FALSE(HasFailure()) << round;
  }
}

TEST(empty_chunk, is_the_empty_record_or_an_invalid_one) {
  EXPECT_TRUE(same_bits(canonical::empty_chunk<every_sum>(false), record<every_sum>::empty()));
  record<every_sum> poisoned = record<every_sum>::empty();
  poisoned.rest = math::from_bits(0x7fc00000U);
  EXPECT_TRUE(same_bits(canonical::empty_chunk<every_sum>(true), poisoned));
  EXPECT_FALSE(canonical::empty_chunk<every_sum>(true).valid());
}

}  // namespace
}  // namespace unmask::testing::canonical_test
