// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Options of a row's read: guidance, edits, a bitmask, tracked tokens. A row
// with options has the bits of a row that was edited beforehand, column by column.
#include <unmask/host/read_row.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "oracles/oracle.hpp"
#include "support/instruction_sets.hpp"

namespace unmask::testing::row_options_test {
namespace {

struct halved {
  float operator()(float z, token_id) const { return 0.5F * z; }
};

/// Looks the token up: called with a token outside the vocabulary it would read foreign memory.
struct biased {
  const std::vector<float>* bias;
  float operator()(float z, token_id v) const { return z + (*bias)[static_cast<std::size_t>(v)]; }
};

/// A row, and memory for all its options.
template <element T>
struct optioned {
  placed_row<T> conditional;
  placed_row<T> unconditional;
  std::vector<std::uint32_t> mask;
  std::vector<token_id> excluded;
  std::vector<float> reported;
  row_input<T> in;

  optioned(scene kind, index_t columns, token_id first, std::uint64_t seed)
      : conditional(hard_row<T>(kind, columns, seed), seed % 5)
      , unconditional(hard_row<T>(scene::ordinary, columns, seed + 1), seed % 3)
      , in(conditional.input()) {
    in.first_token = first;
  }

  void guide(float scale) {
    in.unconditional = unconditional.input().logits;
    in.cfg_scale = scale;
  }
  /// Allows about one token in `sparsity`, and every token of another shard; the words are as many
  /// as needed.
  void allow(dice& d, index_t sparsity) {
    mask.assign(static_cast<std::size_t>((in.first_token + in.columns + 31) / 32), ~0U);
    for (index_t v = in.first_token; v < in.first_token + in.columns; ++v) {
      if (d.within(1, sparsity) != 1) {
        mask[static_cast<std::size_t>(v / 32)] &= ~(1U << static_cast<unsigned>(v % 32));
      }
    }
    in.allowed = mask.data();
  }
  void keep_apart(std::vector<token_id> tokens) {
    std::sort(tokens.begin(), tokens.end());
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    excluded = std::move(tokens);
    reported.assign(excluded.size(), 77.0F);
    in.excluded = excluded.data();
    in.excluded_count = static_cast<index_t>(excluded.size());
    in.excluded_logits = reported.data();
  }

  template <class Edit = identity>
  void expect_canonical(const Edit& edit = {}) {
    std::vector<float> z = edited_row(in, edit);
    const std::vector<float> expected_report = blank(in, z);
    const record<every_sum> expected = canonical_record<every_sum>(z, in.first_token);
    for (const host::instruction_set level : instruction_sets()) {
      std::fill(reported.begin(), reported.end(), 77.0F);
      EXPECT_TRUE(same_bits(host::read_row<every_sum>(in, edit, level), expected))
          << "instruction set " << static_cast<int>(level) << ", " << in.columns << " columns";
      for (std::size_t i = 0; i < reported.size(); ++i) {
        EXPECT_EQ(bits_of(reported[i]), bits_of(expected_report[i])) << excluded[i];
      }
    }
  }
};

template <class T>
class row_options : public ::testing::Test {};
using elements = ::testing::Types<float, bfloat16, float16>;
TYPED_TEST_SUITE(row_options, elements);

constexpr index_t widths[] = {1, 31, 33, 64, 65, 1000, 2048, 2049, 4160, 9000};

TYPED_TEST(row_options, a_bitmask_removes_tokens) {
  dice d(1);
  for (const scene kind : {scene::ordinary, scene::ties, scene::nan_payload, scene::infinite}) {
    for (const index_t columns : widths) {
      for (const index_t sparsity : {1, 2, 500}) {
        for (const token_id first : {0, 2048, 31, 15808, 18992}) {  // shards need not be aligned
          optioned<TypeParam> row(kind, columns, first, 1);
          row.allow(d, sparsity);
          row.expect_canonical();
        }
      }
    }
  }
}

// A policy by name may have a sampling part and a truncation that do nothing.
TYPED_TEST(row_options, a_row_without_draw_and_truncation_has_the_bits_of_a_plain_one) {
  constexpr statistics more = every_sum | stat::sampled | stat::kept;
  dice d(15);
  for (index_t columns : {1, 63, 640, 2048, 5000}) {
    for (const index_t sparsity : {0, 1, 2, 40}) {
      optioned<TypeParam> row(scene::ordinary, columns, 32, static_cast<std::uint64_t>(columns));
      if (sparsity > 0) {
        row.allow(d, sparsity);
      }
      row.in.draw.temperature = 0.0F;
      for (const host::instruction_set level : instruction_sets()) {
        const record<more> read = host::read_row<more>(row.in, {}, level);
        EXPECT_EQ(read.key, -math::infinity());
        EXPECT_TRUE(same_bits(read.template narrowed<every_sum>(),
                              host::read_row<every_sum>(row.in, {}, level)))
            << "instruction set " << static_cast<int>(level) << ", " << columns << " columns";
      }
    }
  }
}

TYPED_TEST(row_options, a_bitmask_that_allows_nothing_leaves_the_empty_record) {
  optioned<TypeParam> row(scene::nan_first, 5000, 0, 2);
  row.mask.assign(157, 0);
  row.in.allowed = row.mask.data();
  for (const host::instruction_set level : instruction_sets()) {
    EXPECT_TRUE(same_bits(host::read_row<every_sum>(row.in, identity{}, level),
                          record<every_sum>::empty()));
  }
}

TYPED_TEST(row_options, guidance_moves_away_from_the_unconditional_row) {
  for (const scene kind : {scene::ordinary, scene::ties, scene::nan_last}) {
    for (const index_t columns : widths) {
      for (const float scale : {0.0F, 0.5F, 2.0F}) {
        optioned<TypeParam> row(kind, columns, 0, 3);
        row.guide(scale);
        row.expect_canonical();
      }
    }
  }
}

TYPED_TEST(row_options, guidance_of_scale_zero_changes_exact_sums_only_by_rounding) {
  // u + (c - u) with small multiples of 1/4 is exactly c.
  std::vector<TypeParam> c;
  std::vector<TypeParam> u;
  dice d(4);
  for (index_t j = 0; j < 3000; ++j) {
    c.push_back(encoded<TypeParam>(0.25 * d.within(-20, 20)));
    u.push_back(encoded<TypeParam>(0.25 * d.within(-20, 20)));
  }
  row_input<TypeParam> in;
  in.logits = c.data();
  in.columns = 3000;
  const auto plain = host::read_row<every_sum>(in, identity{}, host::best_instruction_set());
  in.unconditional = u.data();
  const auto guided = host::read_row<every_sum>(in, identity{}, host::best_instruction_set());
  EXPECT_TRUE(same_bits(guided, plain));
}

TYPED_TEST(row_options, an_edit_sees_every_logit_with_its_token) {
  dice d(5);
  std::vector<float> bias;
  for (index_t v = 0; v < 9000 + 4096; ++v) {
    bias.push_back(d.real(-3, 3));
  }
  for (const scene kind : {scene::ordinary, scene::ties, scene::sparse, scene::nan_chunk}) {
    for (const index_t columns : widths) {
      optioned<TypeParam> row(kind, columns, 4096, 5);
      row.expect_canonical(halved{});
      bias.resize(static_cast<std::size_t>(4096 + columns));
      bias.shrink_to_fit();  // so that an address sanitizer detects a foreign token
      row.expect_canonical(biased{&bias});
      bias.resize(9000 + 4096, 0.5F);
    }
  }
}

TYPED_TEST(row_options, tokens_kept_apart_are_reported_and_left_out) {
  dice d(6);
  for (const scene kind : {scene::ordinary, scene::ties, scene::nan_first, scene::infinite}) {
    for (const index_t columns : widths) {
      for (const token_id first : {0, 4096}) {
        optioned<TypeParam> row(kind, columns, first, 6);
        std::vector<token_id> tokens = {0, first, first + columns - 1, first + columns, 200000};
        for (int i = 0; i < 20; ++i) {
          tokens.push_back(first + d.within(0, columns - 1));
        }
        row.keep_apart(tokens);
        row.expect_canonical();
        row.in.excluded_logits = nullptr;  // suppressed, and the logits are not requested
        row.reported.clear();
        row.expect_canonical();
      }
    }
  }
}

TYPED_TEST(row_options, a_token_kept_apart_equals_one_that_is_absent) {
  const index_t columns = 126464;
  optioned<TypeParam> row(scene::ordinary, columns, 0, 7);
  const auto whole = host::read_row<every_sum>(row.in, identity{}, host::best_instruction_set());
  row.keep_apart({whole.token});
  const auto rest = host::read_row<every_sum>(row.in, identity{}, host::best_instruction_set());
  EXPECT_NE(rest.token, whole.token);
  EXPECT_EQ(rest.best, whole.second);
  EXPECT_EQ(row.reported[0], whole.best);
}

TYPED_TEST(row_options, go_together_in_one_order) {
  dice d(8);
  std::vector<float> bias;
  for (index_t v = 0; v < 9000 + 4096; ++v) {
    bias.push_back(d.real(-3, 3));
  }
  for (const scene kind : every_scene) {
    for (const index_t columns : widths) {
      optioned<TypeParam> row(kind, columns, 4096, 8);
      row.guide(1.5F);
      row.allow(d, 3);
      std::vector<token_id> tokens;
      for (int i = 0; i < 9; ++i) {  // three of nine are allowed
        tokens.push_back(4096 + d.within(0, columns - 1));
      }
      row.keep_apart(tokens);
      row.expect_canonical(biased{&bias});
    }
  }
}

// A set: neither the instruction set nor where a row is cut shows in it.
TYPED_TEST(row_options, the_first_columns_of_a_row_are_held) {
  constexpr statistics contents = stat::confidence | stat::kept;
  dice d(7);
  for (const scene kind : every_scene) {
    for (const index_t columns : {1, 63, 64, 65, 2049, 9000}) {
      optioned<TypeParam> row(kind, columns, 64, 1);
      if (d.chance(0.5)) {
        row.allow(d, 2);
      }
      const std::vector<float> z = edited_row(row.in, identity{});
      held_tokens expected;
      for (index_t j = 0; j < columns; ++j) {
        expected.push(z[static_cast<std::size_t>(j)], row.in.first_token + j);
      }
      for (const host::instruction_set level : instruction_sets()) {
        held_tokens held;
        row.in.held = &held;
        const index_t chunks = canonical::chunks_of(columns);
        const index_t cut = d.within(0, chunks);
        static_cast<void>(host::read_run<contents>(row.in, {0, cut}, identity{}, level));
        static_cast<void>(host::read_run<contents>(row.in, {cut, chunks}, identity{}, level));
        ASSERT_EQ(held.size(), expected.size());
        for (index_t i = 0; i < held.size(); ++i) {
          ASSERT_EQ(held[i].token, expected[i].token)
              << "instruction set " << static_cast<int>(level);
          ASSERT_EQ(bits_of(held[i].logit), bits_of(expected[i].logit));
        }
      }
    }
  }
}

}  // namespace
}  // namespace unmask::testing::row_options_test
