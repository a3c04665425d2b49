// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception The work of a thread block at a hook,
// piece by piece: the drift of a row, the exact selection, the copy of rows. Each gives what one
// lane of the host gives, for any number of warps and any order that threads come in.

#include <unmask/cuda/at_layer.hpp>
#include <unmask/host/drift.hpp>
#include <unmask/step/decide.hpp>
#include <unmask/step/layer_choice.hpp>
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "support/dice.hpp"
#include "support/emulated_block.hpp"
#include "support/fake_logits.hpp"

namespace unmask::testing::emulated_layers_test {
namespace {

constexpr session_capacity capacity{
    .sequences = 1, .length = 70, .window = 32, .vocab = 50, .layers = 8};
constexpr sequence_shape shape{.prompt_length = 9, .length = 70, .block_length = 30};

/// A started sequence in memory of its own.
template <class Policy>
struct lone_sequence {
  std::vector<token_id> tokens = std::vector<token_id>(70, 1);
  std::vector<std::byte> memory =
      std::vector<std::byte>(step::slot_bytes<Policy>(capacity) + step::slot_layout::alignment);
  step::slot_status status;
  step::slot_memory<Policy> m;

  explicit lone_sequence(const Policy& p) {
    auto at = reinterpret_cast<std::uintptr_t>(memory.data());
    at = (at + step::slot_layout::alignment - 1) / step::slot_layout::alignment *
         step::slot_layout::alignment;
    m = step::slot_at<Policy>(reinterpret_cast<std::byte*>(at), capacity);
    m.status = &status;
    std::construct_at(m.policy, p);
    std::construct_at(m.sequence);
    std::construct_at(m.step_reductions);
    std::construct_at(m.state);
    m.state->model = {.vocab = 50, .mask_token = 49, .layers = 8};
    m.state->geometry = shape;
    m.state->tokens = tokens.data();
    m.suppressed[0] = 49;
    m.state->suppressed_count = 1;
  }
  lone_sequence(const lone_sequence&) = delete;
  lone_sequence& operator=(const lone_sequence&) = delete;

  [[nodiscard]] std::vector<index_t> chosen() const {
    return {m.layers.chosen, m.layers.chosen + m.layers.state->chosen};
  }
  [[nodiscard]] std::vector<index_t> active() const {
    return {m.layers.active, m.layers.active + m.layers.state->active};
  }
};

template <class Policy>
void same_choices(const Policy& p, index_t threads, std::uint64_t seed) {
  dice d(seed);
  lone_sequence<Policy> alone(p);
  lone_sequence<Policy> many(p);
  block_emulator block(threads, seed);
  device::choice_space<Policy> space;  // holds what the hook before left
  step::begin(serial{}, alone.m, nullptr);
  block.run([&](const emulated_block& t) { step::begin(t, many.m, nullptr); });
  for (int steps = 0; steps < 9 && alone.status.next.active(); ++steps) {
    ASSERT_EQ(alone.active(), many.active());
    for (index_t l = 0; l < capacity.layers; ++l) {
      if (!step::hooks(alone.m, l)) {
        continue;
      }
      for (index_t i = 0; i < alone.m.layers.state->active; ++i) {
        // Few different values, so that importances tie.
        const float drift = d.chance(0.03)   ? std::nanf("")
                            : d.chance(0.03) ? math::infinity()
                                             : 0.1F * static_cast<float>(d.within(0, 9));
        alone.m.layers.drift[i] = many.m.layers.drift[i] = drift;
      }
      for (index_t i = 0; i < capacity.length; ++i) {  // no selection depends on an earlier one
        many.m.layers.keys[i] = static_cast<std::uint32_t>(d.bits());
        many.m.layers.chosen[i] = many.m.layers.chosen_rows[i] = d.within(0, 69);
      }
      const std::vector<index_t> unwritten(many.m.layers.chosen,
                                           many.m.layers.chosen + capacity.length);
      step::begin_layer(alone.m, l);
      step::choose_rows(alone.m);
      block.run([&](const emulated_block& t) { device::choose_rows(t, many.m, l, space); });
      ASSERT_EQ(alone.chosen(), many.chosen()) << "step " << steps << ", layer " << l;
      for (auto i = static_cast<index_t>(many.chosen().size()); i < capacity.length; ++i) {
        ASSERT_EQ(many.m.layers.chosen[i], unwritten[static_cast<std::size_t>(i)]);
      }
      ASSERT_EQ(alone.active(), many.active());
      const layer_info& expected = alone.m.layers.state->info;
      const layer_info& info = many.m.layers.state->info;
      ASSERT_EQ(math::bits_of(expected.mean), math::bits_of(info.mean));
      ASSERT_EQ(math::bits_of(expected.largest), math::bits_of(info.largest));
      ASSERT_EQ(alone.m.layers.state->next, many.m.layers.state->next);
    }
    for (index_t i = 0; i < alone.status.next.score.size(); ++i) {
      ASSERT_EQ(alone.m.reads(i), many.m.reads(i));
      if (alone.m.reads(i)) {
        auto row = record<Policy::required>::empty();
        row.best = 1.0F;
        row.token = d.within(0, 48);
        row.rest = 0.25F * static_cast<float>(d.within(0, 12));
        alone.m.row(0, i) = many.m.row(0, i) = row;
      }
    }
    step::decide(serial{}, alone.m);
    block.run([&](const emulated_block& t) { step::decide(t, many.m); });
    ASSERT_EQ(alone.tokens, many.tokens);
  }
}

TEST(EmulatedLayers, ABlockChoosesWhatOneLaneDoes) {
  early_skip boosted{.floor = true, .cap = true, .first_masked = 1.0F, .confident = 0.5F};
  boosted.stages[1].keep = 0.02;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    for (const index_t threads : {32, 96}) {
      same_choices(
          policy{by_confidence{}, threshold{0.6F}, early_skip{}, block_cache{3, 2}}, threads, seed);
      same_choices(policy{by_confidence{}, threshold{0.6F}, boosted}, threads, seed);
      same_choices(policy{by_confidence{},
                          threshold{0.6F},
                          cache_budget{.budget = 6, .window = 4, .refresh_stride = 3},
                          delayed_cache{3}},
                   threads,
                   seed);
      same_choices(policy{by_confidence{},
                          threshold{0.6F},
                          cache_budget{.budget = 9,
                                       .window = 6,
                                       .scope = budget_scope::outside_window,
                                       .answer_only = true},
                          interval_cache{3, 2}},
                   threads,
                   seed);
      same_choices(
          policy{by_confidence{}, tokens_per_step{3}, similarity_refresh{}, interval_cache{4, 3}},
          threads,
          seed);
    }
  }
}

TEST(EmulatedChoose, GivesTheListOfOneLane) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    dice d(seed);
    const index_t count = d.chance(0.1) ? d.within(0, 3) : d.within(0, 700);
    const auto kinds =
        static_cast<std::uint64_t>(d.one_of(std::vector<index_t>{1, 3, 40, 1 << 30}));
    std::vector<std::uint32_t> keys;
    for (index_t i = 0; i < count; ++i) {
      keys.push_back(d.chance(0.05)   ? step::always_key
                     : d.chance(0.05) ? step::never_key
                                      : static_cast<std::uint32_t>(d.bits() % kinds * 2654435761U));
    }
    const index_t wanted = d.within(-1, count + 1);
    std::vector<index_t> expected(static_cast<std::size_t>(count) + 1, -7);
    std::vector<index_t> got = expected;
    const index_t size = step::choose(keys.data(), count, wanted, expected.data());
    block_emulator block(d.one_of(std::vector<index_t>{32, 64, 128, 256}), seed);
    device::digit_counts space{};
    block.run([&](const emulated_block& b) {
      EXPECT_EQ(device::choose(b, keys.data(), count, wanted, got.data(), space), size);
    });
    EXPECT_EQ(got, expected);
    const auto also = [seed](index_t i) {
      return mixed(seed, static_cast<std::uint64_t>(i)) % 5 == 0;
    };
    const index_t more = step::choose(keys.data(), count, wanted, expected.data(), also);
    block.run([&](const emulated_block& b) {
      EXPECT_EQ(device::choose(b, keys.data(), count, wanted, got.data(), space, also), more);
    });
    EXPECT_EQ(got, expected);
  }
}

constexpr drift_terms all_terms = drift_terms::distance_1 | drift_terms::distance_2 | cosine_terms;

std::vector<std::uint32_t> bits_of(const drift_sums& s) {
  return {math::bits_of(s.distance_1),
          math::bits_of(s.distance_2),
          math::bits_of(s.product),
          math::bits_of(s.square),
          math::bits_of(s.previous),
          static_cast<std::uint32_t>(s.columns)};
}

template <class T>
std::vector<std::uint16_t> raw(const std::vector<T>& x) {
  std::vector<std::uint16_t> words(x.size() * sizeof(T) / 2);
  std::memcpy(words.data(), x.data(), words.size() * 2);
  return words;
}

template <class T>
class EmulatedDrift : public ::testing::Test {};
using elements = ::testing::Types<float, bfloat16, float16>;
TYPED_TEST_SUITE(EmulatedDrift, elements);

TYPED_TEST(EmulatedDrift, GivesTheCanonicalBitsAndStoresTheRow) {
  dice d(4);
  for (const index_t columns : {0, 1, 31, 32, 33, 100, 511, 512, 513, 1024, 1500}) {
    SCOPED_TRACE(columns);
    std::vector<TypeParam> now;
    std::vector<TypeParam> before;
    for (index_t j = 0; j <= columns; ++j) {  // one number off every alignment, and one behind
      now.push_back(encoded<TypeParam>(d.chance(0.1) ? 0.0 : static_cast<double>(d.real(-4, 4))));
      before.push_back(encoded<TypeParam>(static_cast<double>(d.real(-4, 4))));
    }
    const std::vector<TypeParam> unchanged = before;
    block_emulator block(32, 9);
    const auto expect = [&](const drift_sums& got, const drift_sums& expected) {
      EXPECT_EQ(bits_of(got), bits_of(expected));
    };
    const TypeParam* const x = now.data() + 1;
    TypeParam* const y = before.data() + 1;
    const auto all = canonical::drift_of<all_terms>(x, y, columns);
    const auto some = canonical::drift_of<cosine_terms>(x, y, columns);
    const TypeParam* const nothing = nullptr;
    const auto from_zero = canonical::drift_of<all_terms>(x, nothing, columns);
    block.run([&](const emulated_block& b) {
      expect(device::drift_row<all_terms, false>(b, x, y, columns), all);
      TypeParam* const none = nullptr;
      expect(device::drift_row<all_terms, true>(b, x, none, columns), from_zero);
    });
    EXPECT_EQ(raw(before), raw(unchanged));
    block.run([&](const emulated_block& b) {
      expect(device::drift_row<cosine_terms, true>(b, x, y, columns), some);
    });
    std::vector<TypeParam> expected = now;
    expected[0] = unchanged[0];
    EXPECT_EQ(raw(before), raw(expected));
    before = unchanged;
    block.run([&](const emulated_block& b) {
      static_cast<void>(device::drift_row<drift_terms::none, true>(b, x, y, columns));
    });
    EXPECT_EQ(raw(before), raw(expected));
  }
}

TYPED_TEST(EmulatedDrift, ANaNPoisonsTheSumsItEnters) {
  std::vector<TypeParam> now(700, encoded<TypeParam>(1.0));
  std::vector<TypeParam> before = now;
  now[600] = encoded<TypeParam>(not_a_number);
  block_emulator block(32, 2);
  block.run([&](const emulated_block& b) {
    const drift_sums s = device::drift_row<all_terms, false>(b, now.data(), before.data(), 700);
    EXPECT_TRUE(std::isnan(s.distance_1) && std::isnan(s.distance_2) && std::isnan(s.product) &&
                std::isnan(s.square));
    EXPECT_EQ(s.previous, 700.0F);
  });
}

/// Rows of any width and distance, from and to any address.
TYPED_TEST(EmulatedDrift, RowsAreCopiedWhereTheListsSay) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    dice d(seed);
    const index_t columns = d.one_of(std::vector<index_t>{1, 7, 8, 64, 65, 130});
    const std::ptrdiff_t from_stride = columns + d.within(0, 9);
    const std::ptrdiff_t to_stride = columns + d.within(0, 9);
    const index_t from_shift = d.within(0, 8);
    const index_t to_shift = d.chance(0.5) ? from_shift : d.within(0, 8);
    std::vector<TypeParam> from(static_cast<std::size_t>(from_shift + 20 * from_stride));
    for (TypeParam& x : from) {
      x = encoded<TypeParam>(static_cast<double>(d.within(0, 99)));
    }
    std::vector<TypeParam> to(static_cast<std::size_t>(to_shift + 12 * to_stride));
    std::vector<TypeParam> expected = to;
    std::vector<index_t> rows;
    std::vector<index_t> positions;
    for (index_t i = 0; i < 20; ++i) {
      if (d.chance(0.4)) {
        rows.push_back(i);
        positions.push_back(i + 3);  // the state has 5 to 16
      }
    }
    for (std::size_t k = 0; k < rows.size(); ++k) {
      if (positions[k] >= 5 && positions[k] < 17) {
        std::copy_n(from.begin() + from_shift + rows[k] * from_stride,
                    columns,
                    expected.begin() + to_shift + (positions[k] - 5) * to_stride);
      }
    }
    const auto count = static_cast<index_t>(rows.size());
    const device::row_copies<TypeParam> copies{
        {from.data() + from_shift, 20, columns, from_stride},
        {rows.data(), &count, 20},
        {positions.data(), &count, 20},
        {to.data() + to_shift, range{5, 17}, columns, to_stride}};
    block_emulator block(d.one_of(std::vector<index_t>{32, 128}), seed);
    for (index_t k = 0; k < 20; ++k) {
      block.run([&](const emulated_block& b) { device::copy_row(b, copies, k); });
    }
    EXPECT_EQ(raw(to), raw(expected));
  }
}

}  // namespace
}  // namespace unmask::testing::emulated_layers_test
