// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every instruction set of the host kernel gives the bits of stats/canonical.hpp: that is what lets
// a machine, a backend or a thread count change without changing a token.
#include <unmask/host/read_row.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "oracles/oracle.hpp"
#include "support/instruction_sets.hpp"

namespace unmask::testing::read_row_test {
namespace {

constexpr index_t widths[] = {1, 2, 31, 32, 33, 63, 64, 65, 1000, 2047, 2048, 2049, 4096, 9000};
constexpr index_t vocabularies[] = {126464, 151936};

template <statistics S, element T>
void expect_canonical(const row_input<T>& in) {
  const record<S> expected = canonical_record<S>(edited_row(in), in.first_token);
  for (const host::instruction_set level : instruction_sets()) {
    EXPECT_TRUE(same_bits(host::read_row<S>(in, identity{}, level), expected))
        << "instruction set " << static_cast<int>(level) << ", " << in.columns << " columns";
  }
}

// The portable set compares by the definition.
template <statistics S, element T>
void expect_compared(row_input<T> in, const std::vector<float>& then, const previous_row& before) {
  const auto read = [&](host::instruction_set level) {
    std::vector<float> memory = then;
    in.previous = memory.data();
    in.before = before;
    return std::pair(host::read_row<S>(in, identity{}, level), memory);
  };
  const auto expected = read(host::instruction_set::portable);
  for (const host::instruction_set level : instruction_sets()) {
    const auto found = read(level);
    EXPECT_TRUE(same_bits(found.first, expected.first))
        << "instruction set " << static_cast<int>(level) << ", " << in.columns << " columns";
    const std::size_t bytes = then.size() * sizeof(float);
    EXPECT_EQ(std::memcmp(found.second.data(), expected.second.data(), bytes), 0);
  }
}

template <class T>
class read_row : public ::testing::Test {};
using elements = ::testing::Types<float, bfloat16, float16>;
TYPED_TEST_SUITE(read_row, elements);

TEST(instruction_set, the_best_one_is_available) {
  EXPECT_TRUE(host::available(host::best_instruction_set()));
  EXPECT_TRUE(host::available(host::instruction_set::portable));
}

TYPED_TEST(read_row, has_the_bits_of_the_definition) {
  for (const scene kind : every_scene) {
    for (const index_t columns : widths) {
      SCOPED_TRACE(static_cast<int>(kind));
      const placed_row<TypeParam> row(hard_row<TypeParam>(kind, columns, 1), 0);
      expect_canonical<every_sum>(row.input());
      expect_canonical<stat::margin | stat::entropy>(row.input());
    }
  }
}

TYPED_TEST(read_row, has_the_bits_of_the_definition_for_whole_vocabularies) {
  for (const scene kind : {scene::ordinary, scene::ties, scene::nan_chunk, scene::sparse}) {
    for (const index_t columns : vocabularies) {
      const placed_row<TypeParam> row(hard_row<TypeParam>(kind, columns, 2), 0);
      expect_canonical<every_sum>(row.input());
    }
  }
}

TYPED_TEST(read_row, has_the_bits_of_the_definition_for_every_set_of_statistics) {
  for (const scene kind : every_scene) {
    for (const index_t columns : {65, 2048, 9000}) {
      const placed_row<TypeParam> row(hard_row<TypeParam>(kind, columns, 3), 0);
      expect_canonical<stat::none>(row.input());
      expect_canonical<stat::confidence>(row.input());
      expect_canonical<stat::margin>(row.input());
      expect_canonical<stat::entropy>(row.input());
      expect_canonical<stat::second_moment>(row.input());
      expect_canonical<stat::top3_mass>(row.input());
      expect_canonical<stat::margin | stat::second_moment>(row.input());
      expect_canonical<stat::entropy | stat::second_moment>(row.input());
    }
  }
}

TYPED_TEST(read_row, may_start_at_any_address_and_be_followed_by_anything) {
  for (const std::size_t shift : {1U, 3U, 7U, 15U, 31U}) {
    for (const index_t columns : {1, 33, 64, 2049, 4096, 9000}) {
      const auto row = hard_row<TypeParam>(scene::ordinary, columns, 4);
      expect_canonical<every_sum>(placed_row<TypeParam>(row, shift).input());
    }
  }
}

TYPED_TEST(read_row, reads_nothing_behind_the_row) {  // an address sanitizer watches
  for (const index_t columns : {1, 31, 65, 2047, 2049, 4095}) {
    const auto row = hard_row<TypeParam>(scene::ordinary, columns, 5);
    row_input<TypeParam> in;
    in.logits = row.data();
    in.columns = columns;
    expect_canonical<every_sum>(in);
  }
}

TYPED_TEST(read_row, counts_tokens_from_the_first_one_of_a_shard) {
  const placed_row<TypeParam> row(hard_row<TypeParam>(scene::ties, 5000, 6), 0);
  row_input<TypeParam> shard = row.input();
  shard.first_token = 63232;
  expect_canonical<every_sum>(shard);
}

TYPED_TEST(read_row, finds_a_peak_in_any_column) {
  const index_t columns = 2200;
  auto row = hard_row<TypeParam>(scene::ordinary, columns, 7);
  std::fill(row.begin(), row.end(), encoded<TypeParam>(1.0));
  for (index_t j = 0; j < columns; ++j) {
    row[static_cast<std::size_t>(j)] = encoded<TypeParam>(2.0);
    row_input<TypeParam> in;
    in.logits = row.data();
    in.columns = columns;
    for (const host::instruction_set level : instruction_sets()) {
      const auto r = host::read_row<stat::margin>(in, identity{}, level);
      ASSERT_EQ(r.token, j);
      ASSERT_EQ(r.best, 2.0F);
      ASSERT_EQ(r.second, 1.0F);
    }
    row[static_cast<std::size_t>(j)] = encoded<TypeParam>(1.0);
  }
}

TYPED_TEST(read_row, gives_a_tie_to_the_lower_token_in_any_two_columns) {
  const index_t columns = 5000;
  dice d(8);
  for (int i = 0; i < 300; ++i) {
    auto row = hard_row<TypeParam>(scene::ordinary, columns, 8);
    const index_t a = d.within(0, columns - 2);
    const index_t b = d.within(a + 1, columns - 1);
    row[static_cast<std::size_t>(a)] = row[static_cast<std::size_t>(b)] = encoded<TypeParam>(30.0);
    row_input<TypeParam> in;
    in.logits = row.data();
    in.columns = columns;
    for (const host::instruction_set level : instruction_sets()) {
      const auto r = host::read_row<stat::margin>(in, identity{}, level);
      ASSERT_EQ(r.token, a);
      ASSERT_EQ(r.second, 30.0F);
    }
  }
}

TYPED_TEST(read_row, keeps_the_sign_of_the_first_zero) {
  // The runner-up is a zero of a chunk that never leads; a vector maximum may pick either sign.
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    auto row = hard_row<TypeParam>(scene::zeros, 5000, seed);
    std::fill(row.begin(), row.begin() + 2048, encoded<TypeParam>(-1.0));
    row[100] = encoded<TypeParam>(5.0);
    expect_canonical<stat::margin>(placed_row<TypeParam>(row, 0).input());
    row[100] = encoded<TypeParam>(-1.0);
    row[3000] = encoded<TypeParam>(5.0);
    expect_canonical<stat::margin>(placed_row<TypeParam>(row, 0).input());
  }
}

TYPED_TEST(read_row, never_proposes_a_nan_and_is_poisoned_by_one_in_any_column) {
  const index_t columns = 2200;
  auto row = hard_row<TypeParam>(scene::ordinary, columns, 9);
  for (index_t j = 0; j < columns; ++j) {
    const TypeParam kept = row[static_cast<std::size_t>(j)];
    row[static_cast<std::size_t>(j)] =
        j % 2 == 0 ? encoded<TypeParam>(not_a_number) : loud_nan<TypeParam>();
    row_input<TypeParam> in;
    in.logits = row.data();
    in.columns = columns;
    for (const host::instruction_set level : instruction_sets()) {
      const auto r = host::read_row<stat::confidence>(in, identity{}, level);
      ASSERT_NE(r.token, j);
      ASSERT_TRUE(std::isnan(r.rest)) << j;
      ASSERT_FALSE(r.valid());
    }
    row[static_cast<std::size_t>(j)] = kept;
  }
}

TYPED_TEST(read_row, of_no_finite_column_is_the_empty_record) {
  for (const index_t columns : {1, 64, 3000}) {
    const placed_row<TypeParam> row(hard_row<TypeParam>(scene::absent, columns, 10), 0);
    for (const host::instruction_set level : instruction_sets()) {
      const auto r = host::read_row<every_sum>(row.input(), identity{}, level);
      EXPECT_TRUE(same_bits(r, record<every_sum>::empty()));
      EXPECT_FALSE(r.valid());
    }
  }
}

TYPED_TEST(read_row, of_no_column_is_the_empty_record) {
  for (const host::instruction_set level : instruction_sets()) {
    const row_input<TypeParam> none;
    EXPECT_TRUE(
        same_bits(host::read_row<every_sum>(none, identity{}, level), record<every_sum>::empty()));
  }
}

TYPED_TEST(read_row, draws_the_token_of_the_definition) {
  constexpr statistics drawn = every_sum | stat::sampled;
  for (const scene kind : finite_scenes) {
    for (const index_t columns : {1, 65, 2049, 40000}) {
      for (std::uint64_t seed = 0; seed < 5; ++seed) {
        const placed_row<TypeParam> row(hard_row<TypeParam>(kind, columns, seed), 0);
        row_input<TypeParam> in = row.input();
        in.draw.key.seed = seed;
        in.draw.temperature = seed % 2 == 0 ? 1.0F : 0.75F;
        const auto expected = canonical_record<drawn>(edited_row(in), 0, in.draw);
        for (const host::instruction_set level : instruction_sets()) {
          EXPECT_TRUE(same_bits(host::read_row<drawn>(in, identity{}, level), expected));
        }
      }
    }
  }
}

TYPED_TEST(read_row, compares_with_the_previous_row_as_the_definition_does) {
  for (const scene kind : every_scene) {
    for (const scene earlier : {scene::ordinary, scene::sparse, kind}) {
      for (const index_t columns : {1, 63, 64, 100, 2049, 9000}) {
        const placed_row<TypeParam> row(hard_row<TypeParam>(kind, columns, 4), 0);
        std::vector<float> then = hard_row<float>(earlier, columns, 5);
        float best = -math::infinity();
        for (const float z : then) {
          best = math::max(best, z);  // NaN is ignored
        }
        then.resize(then.size() + 64, 8.0F);  // of the next row
        const previous_row seen{.seen = true, .best = best, .log_total = 2.0F};
        for (const previous_row& before : {previous_row{}, seen}) {
          expect_compared<stat::drift | stat::divergence>(row.input(), then, before);
          expect_compared<stat::drift>(row.input(), then, before);
          expect_compared<stat::divergence>(row.input(), then, before);
        }
      }
    }
  }
}

// Accuracy.

TYPED_TEST(read_row, agrees_with_extended_precision) {
  for (const scene kind : finite_scenes) {
    for (const index_t columns : {1, 33, 1000, 2049, 9000, 126464}) {
      SCOPED_TRACE(static_cast<int>(kind) * 1000000 + columns);
      const placed_row<TypeParam> row(hard_row<TypeParam>(kind, columns, 11), 0);
      const auto r =
          host::read_row<every_sum>(row.input(), identity{}, host::best_instruction_set());
      expect_close(r, edited_row(row.input()));
    }
  }
}

TYPED_TEST(read_row, does_not_feel_a_shift_that_is_exact) {
  // Multiples of 1/8 below 24 have 8 bits: exact in every element type, and so are all differences
  // from the maximum. The first columns of each chunk are too low to choose a scale; an integer
  // exponent of two would not move with the shift.
  for (const index_t columns : {1000, 5000}) {
    dice d(12);
    std::vector<TypeParam> low;
    std::vector<TypeParam> high;
    for (index_t j = 0; j < columns; ++j) {
      const bool first = j % canonical::chunk_columns < canonical::lanes;
      const double z = first ? 0.0 : 8.0 + 0.125 * d.within(0, 63);
      low.push_back(encoded<TypeParam>(z));
      high.push_back(encoded<TypeParam>(z + 8.0));
    }
    for (const host::instruction_set level : instruction_sets()) {
      auto a = host::read_row<every_sum>(placed_row<TypeParam>(low, 0).input(), identity{}, level);
      const auto b =
          host::read_row<every_sum>(placed_row<TypeParam>(high, 0).input(), identity{}, level);
      a.best += 8.0F;
      a.second += 8.0F;
      a.next[0] += 8.0F;
      a.next[1] += 8.0F;
      EXPECT_TRUE(same_bits(a, b));
    }
  }
}

TYPED_TEST(read_row, has_the_bits_of_the_definition_on_both_sides_of_the_reach) {
  // 8.25 is within 12 bits of 0, 8.375 is not; the best column comes last.
  for (const double best : {8.25, 8.375, 40.0}) {
    dice d(15);
    std::vector<TypeParam> row;
    for (index_t j = 0; j < 4096; ++j) {
      row.push_back(encoded<TypeParam>(j == 0 ? 0.0 : -0.125 * d.within(0, 63)));
    }
    row[2047] = row[4000] = encoded<TypeParam>(best);
    const placed_row<TypeParam> placed(row, 0);
    expect_canonical<every_sum>(placed.input());
    expect_close(
        host::read_row<every_sum>(placed.input(), identity{}, host::best_instruction_set()),
        edited_row(placed.input()));
  }
}

TYPED_TEST(read_row, follows_a_permutation_of_the_vocabulary) {
  const index_t columns = 5000;
  const auto row = hard_row<TypeParam>(scene::ordinary, columns, 13);
  dice d(13);
  for (int i = 0; i < 10; ++i) {
    const auto order = d.permutation(columns);
    std::vector<TypeParam> moved(row.size());
    for (std::size_t j = 0; j < row.size(); ++j) {
      moved[static_cast<std::size_t>(order[j])] = row[j];
    }
    const auto a = host::read_row<every_sum>(
        placed_row<TypeParam>(row, 0).input(), identity{}, host::best_instruction_set());
    const placed_row<TypeParam> other(moved, 0);
    const auto b =
        host::read_row<every_sum>(other.input(), identity{}, host::best_instruction_set());
    EXPECT_EQ(b.token, order[static_cast<std::size_t>(a.token)]);
    EXPECT_EQ(b.second, a.second);
    expect_close(b, edited_row(other.input()));
  }
}

TYPED_TEST(read_row, agrees_with_columns_pushed_one_by_one) {
  for (const scene kind : every_scene) {
    const placed_row<TypeParam> row(hard_row<TypeParam>(kind, 5000, 14), 0);
    const std::vector<float> z = edited_row(row.input());
    row_accumulator<every_sum> pushed;
    for (std::size_t j = 0; j < z.size(); ++j) {
      pushed.push(z[j], static_cast<token_id>(j));
    }
    const auto a = host::read_row<every_sum>(row.input(), identity{}, host::best_instruction_set());
    const record<every_sum>& b = pushed.finish();
    EXPECT_EQ(a.best, b.best);
    EXPECT_EQ(a.token, b.token);
    EXPECT_EQ(a.second, b.second);
    EXPECT_EQ(a.valid(), b.valid());
    if (a.valid()) {
      // Each push may round the sum so far twice, so this bounds 5,000 of them.
      const double tolerance = 2.0 * 5000 * 0x1p-24;
      EXPECT_NEAR(a.rest, b.rest, tolerance * (1.0 + a.rest));
      EXPECT_NEAR(a.weighted, b.weighted, tolerance * (1.0 + a.rest - 20.0 * a.weighted));
      EXPECT_NEAR(a.square, b.square, tolerance * (1.0 + a.rest));
    }
  }
}

}  // namespace
}  // namespace unmask::testing::read_row_test
