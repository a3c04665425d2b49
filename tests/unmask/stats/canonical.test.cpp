// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order in which a row is summed: fixed by the columns alone.
#include <unmask/stats/canonical.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "oracles/oracle.hpp"

namespace unmask::testing {
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

}  // namespace
}  // namespace unmask::testing
