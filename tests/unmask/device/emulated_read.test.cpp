// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The bodies of the kernels that read rows, run by emulated threads: their records must have the
// bits that stats/canonical.hpp defines, for every length, alignment, option and cut of a row.

#include <unmask/cuda/read_row.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "oracles/oracle.hpp"
#include "support/dice.hpp"
#include "support/emulated_block.hpp"
#include "support/fake_logits.hpp"
#include "support/random_draw_key.hpp"

namespace unmask::testing::emulated_read_test {
namespace {

constexpr statistics everything = every_sum;
constexpr float none = -std::numeric_limits<float>::infinity();

/// Twice the logit, and a little more for odd tokens.
struct doubled {
  UNMASK_HD float operator()(float z, token_id v) const {
    return math::fma(2.0F, z, v % 2 == 0 ? 0.0F : 0.25F);
  }
};

/// A row with room around it, so that it can start at any address and be followed by junk.
template <element T>
struct test_row {
  std::vector<T> memory;
  std::vector<T> unconditional_memory;
  std::vector<std::uint32_t> allowed;
  std::vector<token_id> excluded;
  std::vector<float> excluded_logits;
  std::vector<float> previous;
  row_input<T> input;

  // `shift` elements behind an address that suits every load.
  test_row(index_t columns, index_t shift, const auto& logit) {
    memory.assign(static_cast<std::size_t>(columns + shift + 8), encoded<T>(not_a_number));
    const auto base = reinterpret_cast<std::uintptr_t>(memory.data()) / sizeof(T);
    const auto start = static_cast<std::size_t>(shift) + (4 - base % 4) % 4;
    for (index_t j = 0; j < columns; ++j) {
      memory[start + static_cast<std::size_t>(j)] = encoded<T>(logit(j));
    }
    input.logits = memory.data() + start;
    input.columns = columns;
  }
  test_row(const test_row&) = delete;
  test_row& operator=(const test_row&) = delete;

  void guide(float scale, dice& d) {
    for (index_t j = 0; j < input.columns + 1; ++j) {
      unconditional_memory.push_back(encoded<T>(d.real(-3, 3)));
    }
    input.unconditional = unconditional_memory.data() + 1;  // not as aligned as the row itself
    input.cfg_scale = scale;
  }
  void allow(double share, dice& d) {
    allowed.resize(static_cast<std::size_t>(input.first_token + input.columns + 31) / 32);
    for (std::uint32_t& word : allowed) {
      for (unsigned bit = 0; bit < 32; ++bit) {
        word |= (d.chance(share) ? 1U : 0U) << bit;
      }
    }
    input.allowed = allowed.data();
  }
  void blank(std::vector<token_id> tokens) {
    excluded = std::move(tokens);
    excluded_logits.assign(excluded.size(), 12345.0F);
    input.excluded = excluded.data();
    input.excluded_count = static_cast<index_t>(excluded.size());
    input.excluded_logits = excluded_logits.data();
  }

  /// Lends the row of the step before, at an odd place.
  void compare_with(const std::vector<float>& z, const previous_row& before) {
    previous.assign(1, 0.0F);
    previous.insert(previous.end(), z.begin(), z.end());
    input.previous = previous.data() + 1;
    input.before = before;
  }

  /// The edited logits, computed from the words of row_input only.
  template <class Edit>
  [[nodiscard]] std::vector<float> edited(const Edit& edit, std::vector<float>& blank_out) const {
    std::vector<float> z;
    blank_out.assign(excluded.size(), none);
    for (index_t j = 0; j < input.columns; ++j) {
      auto x = static_cast<float>(decoded(input.logits[j]));
      const token_id v = input.first_token + j;
      if (input.unconditional != nullptr) {
        const auto u = static_cast<float>(decoded(input.unconditional[j]));
        x = std::fma(input.cfg_scale + 1.0F, x - u, u);
      }
      x = edit(x, v);
      if (input.allowed != nullptr &&
          ((allowed[static_cast<std::size_t>(v) / 32] >> (v % 32)) & 1U) == 0) {
        x = none;
      }
      const auto at = std::find(excluded.begin(), excluded.end(), v);
      if (at != excluded.end()) {
        blank_out[static_cast<std::size_t>(at - excluded.begin())] = x;
        x = none;
      }
      z.push_back(x);
    }
    return z;
  }
};

/// The record of a row as defined in canonical.hpp, draw.hpp and compare.hpp; overwrites
/// `previous`.
template <statistics S, element T>
record<S> canonical_record(const std::vector<float>& z,
                           const row_input<T>& row,
                           std::vector<float>& previous) {
  canonical::chunk_tree<S> tree;
  const auto columns = static_cast<index_t>(z.size());
  for (index_t first = 0; first < columns; first += canonical::chunk_columns) {
    const index_t count = std::min(canonical::chunk_columns, columns - first);
    record<S> r =
        canonical::fold_chunk<S>(z.data() + first, count, row.first_token + first, row.draw);
    if constexpr (canonical::compares<S>) {
      if (r.best > none) {
        canonical::compare_chunk(r, z.data() + first, previous.data() + first, count, row.before);
      }
    }
    tree.push(r);
  }
  previous = z;
  record<S> whole = tree.finish();
  if constexpr (provides_v<S, stat::drift>) {
    whole.previous_square = row.before.seen ? row.before.square : 0.0F;
  }
  return whole;
}

/// The record of a row as the thread blocks of a grid make it, finishing in any order.
template <statistics S, element T, class Edit>
record<S> emulated_record(
    block_emulator& block, const row_input<T>& row, const Edit& edit, index_t run_chunks, dice& d) {
  const index_t chunks = canonical::chunks_of(row.columns);
  const index_t runs = (chunks + run_chunks - 1) / run_chunks;
  std::vector<record<S>> nodes(device::node_count<S>);
  std::vector<record<S>> parts(static_cast<std::size_t>(runs));
  std::uint32_t arrived = 0;
  record<S> out;
  out.token = -7;
  for (const index_t run : d.permutation(runs)) {
    EXPECT_EQ(out.token, -7) << "finished before its last run";
    block.run([&](const emulated_block& b) {
      device::read_row<S, device::exact_exponential>(
          b,
          row,
          edit,
          run,
          run_chunks,
          device::row_reduction<S>{parts.data(), &arrived},
          nodes.data(),
          out);
    });
  }
  EXPECT_EQ(arrived, 0U) << "the counter must be ready for the next step";
  return out;
}

template <statistics S, element T, class Edit = identity>
void expect_canonical(
    const test_row<T>& row, index_t threads, index_t run_chunks, dice& d, const Edit& edit = {}) {
  SCOPED_TRACE("columns " + std::to_string(row.input.columns) + ", run " +
               std::to_string(run_chunks) + ", threads " + std::to_string(threads));
  std::vector<float> excluded;
  const std::vector<float> z = row.edited(edit, excluded);
  std::vector<float> previous(row.previous.begin() + (row.previous.empty() ? 0 : 1),
                              row.previous.end());
  const record<S> expected = canonical_record<S>(z, row.input, previous);
  block_emulator block(threads, d.bits());
  const record<S> actual = emulated_record<S>(block, row.input, edit, run_chunks, d);
  EXPECT_TRUE(same_bits(actual, expected));
  if constexpr (canonical::compares<S>) {
    for (std::size_t j = 0; j < z.size(); ++j) {
      ASSERT_EQ(bits_of(row.previous[j + 1]), bits_of(z[j]))
          << "kept for the next step, column " << j;
    }
  }
  for (std::size_t i = 0; i < excluded.size(); ++i) {
    EXPECT_EQ(bits_of(row.excluded_logits[i]), bits_of(excluded[i]))
        << "excluded token " << row.excluded[i];
  }
}

template <class T>
class EmulatedRead : public ::testing::Test {};
using elements = ::testing::Types<float, bfloat16, float16>;
TYPED_TEST_SUITE(EmulatedRead, elements);

TYPED_TEST(EmulatedRead, GivesTheCanonicalBitsForEveryLengthAndAlignment) {
  dice d(1);
  for (const index_t columns :
       {1, 2, 31, 32, 33, 63, 64, 65, 1000, 2047, 2048, 2049, 4096, 10000}) {
    for (index_t shift = 0; shift < 3; ++shift) {
      const test_row<TypeParam> row(columns, shift, [&](index_t) { return d.real(-9, 9); });
      expect_canonical<everything>(row, 64, 1, d);
    }
  }
}

TYPED_TEST(EmulatedRead, GivesTheCanonicalBitsOfAWholeVocabularyHoweverItIsCut) {
  dice d(2);
  const index_t favourite = 77777;
  const test_row<TypeParam> row(
      126464, 0, [&](index_t j) { return j == favourite ? 18.0F : d.real(-8, 8); });
  for (const index_t run_chunks : {8, 16, 128}) {
    expect_canonical<everything>(row, 256, run_chunks, d);
  }
}

TYPED_TEST(EmulatedRead, GathersOnlyWhatIsAskedFor) {
  dice d(3);
  const test_row<TypeParam> row(5000, 1, [&](index_t) { return d.real(-9, 9); });
  expect_canonical<stat::none>(row, 64, 2, d);
  expect_canonical<stat::confidence>(row, 64, 2, d);
  expect_canonical<stat::margin>(row, 64, 2, d);
  expect_canonical<stat::entropy>(row, 64, 2, d);
  expect_canonical<stat::second_moment>(row, 64, 2, d);
  expect_canonical<stat::top3_mass>(row, 64, 2, d);
}

TYPED_TEST(EmulatedRead, BreaksTiesAsTheCanonicalOrderDoes) {
  dice d(4);
  for (int round = 0; round < 12; ++round) {
    // Few values, zeros of both signs among them: nearly every column ties.
    const std::vector<double> values = round % 3 == 0 ? std::vector<double>{0.0, -0.0, -1.0}
                                                      : std::vector<double>{-2.0, -0.0, 0.0, 3.0};
    const test_row<TypeParam> row(
        d.within(1, 9000), d.within(0, 1), [&](index_t) { return d.one_of(values); });
    expect_canonical<everything>(row, 64, 2, d);
  }
}

TYPED_TEST(EmulatedRead, MergesChunksThatTieBelowTheBestInTheCanonicalOrder) {
  // Neighbours tie, and the warp of the first one has met a larger logit, that of the second has
  // not.
  dice d(12);
  for (int round = 0; round < 10; ++round) {
    const float best[] = {8.0F, 1.0F, 4.0F, 4.0F};
    const test_row<TypeParam> row(4 * 2048, 0, [&](index_t j) -> double {
      const double low = j / 2048 == 3 ? -3.1 : -6.5;  // sums of .1 and 3: a swap shows in one of 5
      return j % 2048 == 77 ? best[j / 2048] : low + static_cast<double>(d.real(-2, 2));
    });
    expect_canonical<everything>(row, 64, 4, d);
  }
}

TYPED_TEST(EmulatedRead, TreatsAbsentAndInvalidColumnsAsTheCanonicalOrderDoes) {
  dice d(5);
  for (int round = 0; round < 24; ++round) {
    const double absent = d.one_of(std::vector<double>{0.0, 0.3, 0.999, 1.0});
    const double invalid = d.one_of(std::vector<double>{0.0, 0.0005, 1.0});
    const double infinite = d.one_of(std::vector<double>{0.0, 0.0, 0.0003});
    const test_row<TypeParam> row(d.within(1, 9000), 0, [&](index_t) -> double {
      if (d.chance(invalid)) {
        return not_a_number;
      }
      if (d.chance(infinite)) {
        return infinity;
      }
      return d.chance(absent) ? -infinity : static_cast<double>(d.real(-60, 60));
    });
    expect_canonical<everything>(row, 64, 2, d);
  }
}

TYPED_TEST(EmulatedRead, GivesTheCanonicalBitsWhateverTheFirstColumnsOfAChunkAre) {
  dice d(10);
  for (const double first : {-30.0, -6.0, 3.0, -infinity, -3e4}) {
    for (const double scale : {1.0, 3e3}) {
      const test_row<TypeParam> row(d.within(2100, 9000), d.within(0, 1), [&](index_t j) -> double {
        return j % 2048 < 64 ? first : scale * static_cast<double>(d.real(-9, 9));
      });
      expect_canonical<everything>(row, 64, 2, d);
    }
  }
}

TYPED_TEST(EmulatedRead, AppliesGuidanceEditsMasksAndExclusionsInThatOrder) {
  dice d(6);
  for (int round = 0; round < 16; ++round) {
    test_row<TypeParam> row(
        d.within(1, 9000), d.within(0, 2), [&](index_t) { return d.real(-9, 9); });
    row.input.first_token = d.chance(0.5) ? 0 : d.within(0, 5000);
    const index_t first = row.input.first_token;
    if (d.chance(0.7)) {
      row.guide(d.real(0, 3), d);
    }
    if (d.chance(0.7)) {
      row.allow(d.one_of(std::vector<double>{0.0, 0.01, 0.9}), d);
    }
    std::vector<token_id> tokens = {
        0, first, first + row.input.columns, first + row.input.columns - 1};
    for (int i = 0; i < 40; ++i) {
      tokens.push_back(d.within(0, first + row.input.columns + 100));
    }
    std::sort(tokens.begin(), tokens.end());
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    row.blank(d.chance(0.8) ? tokens : std::vector<token_id>{});
    expect_canonical<everything>(row, 64, 2, d);
    expect_canonical<everything>(row, 64, 1, d, doubled{});
  }
}

TYPED_TEST(EmulatedRead, ANaNOfATokenThatIsNotAllowedDoesNoHarm) {
  dice d(7);
  test_row<TypeParam> row(3000, 0, [&](index_t j) -> double {
    return j % 2 == 1 || j == 500 ? not_a_number : static_cast<double>(d.real(-9, 9));
  });
  row.allowed.assign(3008 / 32, 0x55555555U);  // even tokens
  row.input.allowed = row.allowed.data();
  row.blank({500});
  expect_canonical<everything>(row, 64, 1, d);
  std::vector<float> ignored;
  const std::vector<float> z = row.edited(identity{}, ignored);
  EXPECT_TRUE(canonical_record<everything>(z, row.input, ignored).valid());
}

TYPED_TEST(EmulatedRead, DrawsTheTokenThatTheCanonicalOrderDraws) {
  dice d(8);
  for (int round = 0; round < 16; ++round) {
    const double spread = d.one_of(std::vector<double>{0.0, 1.0, 20.0});
    const double absent = d.one_of(std::vector<double>{0.0, 0.5, 0.999});
    const double invalid = d.one_of(std::vector<double>{0.0, 0.0, 0.0003, 0.5});
    const double trouble = d.chance(0.5) ? not_a_number : infinity;
    test_row<TypeParam> row(d.within(1, 5000), d.within(0, 1), [&](index_t j) -> double {
      if (d.chance(invalid)) {
        return trouble;
      }
      return j > 0 && d.chance(absent) ? -infinity : static_cast<double>(d.real(-spread, spread));
    });
    row.input.first_token = d.chance(0.5) ? 0 : 2048 * d.within(0, 9);
    row.input.draw.key = random_draw_key(d);
    row.input.draw.temperature = d.chance(0.4) ? 1.0F : d.real(0.1, 2.0);
    if (d.chance(0.3)) {
      row.allow(0.7, d);
    }
    expect_canonical<stat::sampled>(row, 64, 2, d);
    expect_canonical<everything | stat::sampled>(row, 64, 1, d, doubled{});
  }
}

TYPED_TEST(EmulatedRead, ComparesWithTheStepBeforeAsTheCanonicalOrderDoes) {
  constexpr statistics both = stat::drift | stat::divergence;
  dice d(9);
  for (int round = 0; round < 12; ++round) {
    const double absent = d.one_of(std::vector<double>{0.0, 0.5, 0.9995, 1.0});
    const double invalid = d.one_of(std::vector<double>{0.0, 0.0, 0.001});
    test_row<TypeParam> row(d.within(1, 9000), d.within(0, 1), [&](index_t) -> double {
      return d.chance(invalid)  ? not_a_number
             : d.chance(absent) ? -infinity
                                : static_cast<double>(d.real(-9, 9));
    });
    std::vector<float> old;
    float best = none;
    for (index_t j = 0; j < row.input.columns; ++j) {
      old.push_back(d.chance(absent) ? none : d.real(-9, 9));
      best = std::max(best, old.back());
    }
    const bool seen = best > none && d.chance(0.7);
    row.compare_with(old, {seen, best, d.real(0, 3), d.real(1, 2)});
    expect_canonical<both>(row, 64, 2, d);
    row.compare_with(old, {seen, best, d.real(0, 3), d.real(1, 2)});
    expect_canonical<stat::divergence>(row, 64, 1, d);
    row.compare_with(old, {seen, best, d.real(0, 3), d.real(1, 2)});
    expect_canonical<stat::drift | stat::margin>(row, 64, 1, d, doubled{});
  }
}

// Effect of -use_fast_math on kernels. No difference of logits that are 1e-30 is flushed.
TYPED_TEST(EmulatedRead, FlushingNumbersBelowTheNormalOnesChangesNoBitButOfTheSumOfProducts) {
  constexpr statistics drawing = everything | stat::sampled;
  constexpr statistics drifting = stat::drift | stat::margin;
  dice d(11);
  for (const double spread : {1e-30, 1e-6, 9.0, 90.0, 3e4}) {
    for (const double absent : {0.0, 0.9, 0.999}) {
      test_row<TypeParam> row(d.within(1, 9000), 0, [&](index_t) -> double {
        return d.chance(absent) ? -infinity : static_cast<double>(d.real(-spread, spread));
      });
      row.input.draw.key = {d.bits(), static_cast<std::uint32_t>(d.bits()), 3, 4};
      row.input.draw.temperature = d.chance(0.4) ? 1.0F : d.real(0.1, 2.0);
      std::vector<float> old(static_cast<std::size_t>(row.input.columns));
      for (float& x : old) {
        x = d.real(-spread, spread);
      }
      const previous_row before{
          true, *std::max_element(old.begin(), old.end()), d.real(0, 3), 1.5F};
      const flushing_kernels as_with_fast_math;
      expect_canonical<drawing>(row, 64, 2, d);
      row.compare_with(old, before);
      expect_canonical<stat::divergence>(row, 64, 1, d);

      row.compare_with(old, before);
      std::vector<float> none_blanked;
      const std::vector<float> z = row.edited(identity{}, none_blanked);
      const auto expected = canonical_record<drifting>(z, row.input, old);
      block_emulator block(64, d.bits());
      const auto actual = emulated_record<drifting>(block, row.input, identity{}, 1, d);
      EXPECT_NEAR(actual.cross, expected.cross, 0x1p-126 * row.input.columns);
      EXPECT_EQ(bits_of(actual.square), bits_of(expected.square));
      EXPECT_EQ(bits_of(actual.drift()), bits_of(expected.drift()));
    }
  }
}

TEST(EmulatedExponential, HasTheBitsOfTheCore) {
  for (std::uint32_t i = 0; i < 200000; ++i) {
    const float t = 9.0F - 133.0F * static_cast<float>(i) / 200000.0F;
    ASSERT_EQ(bits_of(device::exact_exponential{}(t)), bits_of(math::exp2(t))) << t;
  }
  EXPECT_EQ(device::exact_exponential{}(0.0F), 1.0F);
  EXPECT_EQ(bits_of(device::exact_exponential{}(-0.0F)), bits_of(1.0F));
}

TEST(RowShape, CutsEveryRowIntoRunsThatOneBlockCanMerge) {
  for (const index_t columns : {1, 2048, 2049, 50257, 126464, 262144, 262145, 1 << 25}) {
    for (const std::int64_t rows : {1, 32, 1024, 100000}) {
      for (const index_t multiprocessors : {1, 108, 132, 148}) {
        const device::row_shape s = device::shape_rows(rows, columns, multiprocessors);
        EXPECT_TRUE(std::has_single_bit(static_cast<unsigned>(s.run_chunks)));
        EXPECT_LE(s.run_chunks, device::max_run_chunks);
        EXPECT_LE(s.runs, device::max_run_chunks);
        const index_t chunks = canonical::chunks_of(columns);
        EXPECT_GE(s.runs * s.run_chunks, chunks);
        EXPECT_LT((s.runs - 1) * s.run_chunks, chunks) << "an empty run";
      }
    }
  }
}

}  // namespace
}  // namespace unmask::testing::emulated_read_test
