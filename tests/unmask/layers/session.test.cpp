// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// An engine that runs single positions, one loop for every policy: its calls and their results.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "support/layered_decode.hpp"

namespace unmask::testing::session_test {
namespace {

constexpr policy plain{by_confidence{}, threshold{0.5F}};
constexpr policy skipping_half{by_confidence{},
                               threshold{0.5F},
                               early_skip{},
                               block_cache{.prompt_period = 16, .block_period = 4}};

// Properties that an engine can test at compile time.
static_assert(!decltype(plain)::layered && !decltype(plain)::caches);
static_assert(decltype(skipping_half)::layered && decltype(skipping_half)::caches);
static_assert(!session<std::remove_const_t<decltype(plain)>>::has_hooks);
static_assert(session<std::remove_const_t<decltype(skipping_half)>>::has_hooks);

constexpr sequence_shape shape{.prompt_length = 5, .length = 37, .block_length = 16, .seed = 3};

TEST(LayerSession, RunsAPolicyThatSkipsNothing) {
  const toy_transformer model;
  const layered_result done = decode_layered(model, plain, shape);
  EXPECT_EQ(done.report.end, ending::complete);
  EXPECT_EQ(done.computed, static_cast<long>(done.report.forwards) * 37 * model.layers);
}

TEST(LayerSession, SkippedPositionsAreNotComputed) {
  const toy_transformer model;
  const layered_result done = decode_layered(model, skipping_half, shape);
  EXPECT_EQ(done.report.end, ending::complete);
  EXPECT_EQ(done.report.masked, 0);
  EXPECT_LT(done.computed, static_cast<long>(done.report.forwards) * 16 * model.layers);
}

TEST(LayerSession, NamesWhatIsWrongAndChangesNothing) {
  const toy_transformer model;
  std::vector<token_id> tokens = prompted(model, shape);
  session session(skipping_half, info_of(model), tokens, shape);
  EXPECT_THROW(static_cast<void>(session.pass(0)), std::logic_error);
  const auto request = session.next();
  ASSERT_TRUE(request);
  EXPECT_THROW(static_cast<void>(session.pass(1)), std::invalid_argument);
  auto pass = session.pass(0);
  std::vector<float> hidden(37 * 4);
  std::vector<float> memory(37 * 4);
  const host_hidden<float> rows(hidden.data(), 37, 4);
  const host_state<float> stored(memory.data(), 37, 4);
  EXPECT_THROW(pass.at_layer(0, rows, stored), std::logic_error);  // no hook there
  EXPECT_THROW(pass.at_layer(8, rows, stored), std::invalid_argument);
  EXPECT_THROW(pass.at_layer(1, rows.subrows({0, 36}), stored), std::invalid_argument);
  const index_t least = std::numeric_limits<index_t>::min();
  for (const range positions : {range{-1, 37}, range{5, 4}, range{least, -(least + 1)}}) {
    EXPECT_THROW(pass.at_layer(1, rows, host_state<float>(memory.data(), positions, 4, 4)),
                 std::invalid_argument);
  }
  EXPECT_THROW(pass.at_layer(1, rows, host_state<float>(memory.data(), 37, 3)),
               std::invalid_argument);
  EXPECT_THROW(pass.at_layer(1, host_hidden<float>(hidden.data(), 37, 4, 3), stored),
               std::invalid_argument);  // rows that overlap
  EXPECT_THROW(pass.at_layer(1, rows, host_state<float>(memory.data(), {0, 37}, 4, 3)),
               std::invalid_argument);
  std::vector<float> logits(static_cast<std::size_t>(16 * model.vocab));
  const host_logits<float> z(logits.data(), 16, model.vocab);
  EXPECT_THROW(session.supply(z), std::logic_error);  // the hooks were not called
  EXPECT_EQ(pass.at_layer(1, rows, stored).rows.size(), 37U);
  EXPECT_THROW(pass.at_layer(1, rows, stored), std::logic_error);  // behind it
  EXPECT_THROW(session.abandon(), std::logic_error);               // at_layer() has stored rows
  EXPECT_EQ(pass.at_layer(2, rows, stored).rows.size(), 37U);
  EXPECT_THROW(session.supply(host_logits<float>(logits.data(), 15, model.vocab)),
               std::invalid_argument);
  EXPECT_THROW(session.decide(), std::logic_error);  // nothing was read
  session.read(0, z);
  EXPECT_THROW(session.read(0, z), std::logic_error);
  EXPECT_THROW(session.supply(z), std::logic_error);
  session.decide();
  EXPECT_EQ(session.report().forwards, 1);
}

TEST(LayerSession, CancelsARequestBehindAHook) {
  const toy_transformer model;
  std::vector<token_id> tokens = prompted(model, shape);
  session session(skipping_half, info_of(model), tokens, shape);
  std::vector<float> memory(37 * 4);
  const host_hidden<float> rows(memory.data(), 37, 4);
  const host_state<float> stored(memory.data(), 37, 4);
  ASSERT_TRUE(session.next());
  session.at_layer(1, std::span<layer_hook<float, memory::host>>());
  session.abandon();  // at_layer() of no segment has stored nothing
  ASSERT_TRUE(session.next());
  EXPECT_EQ(session.pass(0).at_layer(1, rows, stored).rows.size(), 37U);
  EXPECT_THROW(session.abandon(), std::logic_error);
  EXPECT_EQ(session.cancel_request().size(), 1U);
  EXPECT_EQ(session.report().end, ending::cancelled);
  EXPECT_FALSE(session.next());
  session.start(0, skipping_half, tokens, shape);
  ASSERT_TRUE(session.next());
  EXPECT_EQ(session.pass(0).at_layer(1, rows, stored).rows.size(), 37U);  // from the first hook
  EXPECT_EQ(session.pass(0).at_layer(2, rows, stored).rows.size(), 37U);
}

/// Three sequences whose hidden states are drawn: what an engine lends at a hook, and stores.
struct drawn_sequences {
  static constexpr index_t width = 3;
  index_t layers;
  std::vector<std::vector<token_id>> tokens;
  std::vector<std::vector<float>> hidden = std::vector<std::vector<float>>(3);
  std::vector<std::vector<float>> stored;
  unmask::session<std::remove_const_t<decltype(skipping_half)>> session;

  explicit drawn_sequences(const toy_transformer& model)
      : layers(model.layers)
      , tokens(3, prompted(model, shape))
      , stored(3, std::vector<float>(std::size_t(layers * shape.length * width)))
      , session(info_of(model), {.sequences = 3, .length = shape.length, .window = 16}) {
    for (index_t slot = 0; slot < 3; ++slot) {
      const sequence_shape g{.prompt_length = 5, .length = 37 - 4 * slot, .block_length = 16};
      tokens[std::size_t(slot)].resize(std::size_t(g.length));
      session.start(slot, skipping_half, tokens[std::size_t(slot)], g);
    }
  }

  [[nodiscard]] std::vector<host_layer_hook<float>> hooks_at(index_t layer, index_t step) {
    std::vector<host_layer_hook<float>> hooks;
    const auto request = session.next();
    for (std::size_t i = 0; i < request->segments.size(); ++i) {
      const auto slot = std::size_t(request->segments[i].slot);
      const auto pass = session.pass(i);
      const auto rows = static_cast<index_t>(pass.positions().size());
      dice d(mixed(std::uint64_t(layer), std::uint64_t(step), slot));
      hidden[slot].resize(std::size_t(rows * width));
      for (float& x : hidden[slot]) {
        x = d.real(-1.0F, 1.0F);
      }
      hooks.push_back({i,
                       {hidden[slot].data(), rows, width},
                       {stored[slot].data() + layer * shape.length * width, shape.length, width},
                       {}});
    }
    return hooks;
  }
};

TEST(LayerSession, SegmentsMayBeAskedTogether) {
  const toy_transformer model;
  drawn_sequences one_by_one(model);
  drawn_sequences together(model);
  index_t steps = 0;
  for (; one_by_one.session.next(); ++steps) {
    ASSERT_TRUE(together.session.next());
    for (index_t l = 0; l < model.layers; ++l) {
      if (!one_by_one.session.pass(0).hooks(l)) {
        continue;
      }
      auto hooks = together.hooks_at(l, steps);
      together.session.at_layer(l, std::span(hooks));
      const auto lone = one_by_one.hooks_at(l, steps);
      ASSERT_EQ(hooks.size(), lone.size());
      for (std::size_t i = 0; i < lone.size(); ++i) {
        const layer_choice choice =
            one_by_one.session.pass(i).at_layer(l, lone[i].now, lone[i].previous);
        EXPECT_TRUE(std::ranges::equal(hooks[i].chosen.rows, choice.rows));
        EXPECT_TRUE(std::ranges::equal(hooks[i].chosen.positions, choice.positions));
      }
    }
    EXPECT_EQ(together.stored, one_by_one.stored);
    for (drawn_sequences* const s : {&one_by_one, &together}) {
      const auto request = s->session.next();
      for (std::size_t i = 0; i < request->segments.size(); ++i) {
        const auto rows = static_cast<index_t>(s->session.pass(i).rows().size());
        std::vector<float> logits(std::size_t(rows * model.vocab));
        dice d(mixed(7, std::uint64_t(steps), i));
        for (float& z : logits) {
          z = d.real(-9.0F, 9.0F);
        }
        s->session.read(i, host_logits<float>(logits.data(), rows, model.vocab));
      }
      s->session.decide();
    }
    EXPECT_EQ(together.tokens, one_by_one.tokens);
  }
  EXPECT_FALSE(together.session.next());
  EXPECT_GT(steps, 4);
}

TEST(LayerSession, WhatIsWrongWithOneOfSeveralSegmentsIsSaidBeforeAnyIsAsked) {
  const toy_transformer model;
  drawn_sequences s(model);
  ASSERT_TRUE(s.session.next());
  const auto refused = [&](const auto& spoil) {
    auto hooks = s.hooks_at(1, 0);
    spoil(hooks);
    EXPECT_THROW(s.session.at_layer(1, std::span(hooks)), std::invalid_argument);
  };
  refused([](auto& hooks) { hooks[2].segment = 3; });
  refused([](auto& hooks) { hooks[1].segment = 0; });  // twice
  refused([](auto& hooks) { std::swap(hooks[0], hooks[1]); });
  refused([](auto& hooks) { hooks[2].now.rows -= 1; });
  refused([](auto& hooks) { hooks[1].previous.columns += 1; });
  auto hooks = s.hooks_at(1, 0);
  EXPECT_THROW(s.session.at_layer(0, std::span(hooks)), std::logic_error);  // no hook there
  s.session.at_layer(1, std::span(hooks));
  EXPECT_THROW(s.session.at_layer(1, std::span(hooks)), std::logic_error);  // behind it
}

// The state of a layered policy and the rows that the engine stores are constants.
static_assert(hooked_layers(skipping_half, 32) == 2 && hooked_layers(plain, 32) == 0);
constexpr session_capacity capacity{
    .sequences = 2, .length = 1000, .window = 64, .vocab = 100, .layers = 32};
constexpr std::size_t kept = state_bytes<std::remove_const_t<decltype(skipping_half)>>(capacity);
static_assert(kept - state_bytes<std::remove_const_t<decltype(plain)>>(capacity) <
              2 * (1000 * 20 + 4096));

TEST(LayerSession, TheStateIsAsLargeAsItSays) {
  using skipping = session<std::remove_const_t<decltype(skipping_half)>>;
  model_info model = info_of(toy_transformer{});
  model.vocab = 100;
  model.mask_token = 99;
  model.layers = 32;
  EXPECT_EQ(skipping(model, {.sequences = 2, .length = 1000, .window = 64}).bytes(), kept);
}

/// A NaN among the hidden states: the row is computed again, the others are as if it were not
/// there.
TEST(LayerSession, ABrokenRowIsKept) {
  const toy_transformer model;
  std::vector<token_id> tokens = prompted(model, shape);
  constexpr policy p{by_confidence{}, tokens_per_step{1}, early_skip{.weight = 0.0F, .cap = true}};
  session session(p, info_of(model), tokens, shape);
  std::vector<float> stored(8 * 37 * 2, 1.0F);
  for (int step = 0; step < 2; ++step) {
    ASSERT_TRUE(session.next());
    auto pass = session.pass(0);
    for (index_t l = 0; l < 8; ++l) {
      if (pass.hooks(l)) {
        std::vector<float> hidden;
        for (const index_t q : pass.positions()) {
          const float moved = step == 1 && q < 10 ? 0.5F : 0.0F;
          hidden.push_back(step == 1 && q == 20 ? std::nanf("") : 1.0F + moved);
          hidden.push_back(1.0F);
        }
        const auto rows = static_cast<index_t>(pass.positions().size());
        const layer_choice choice = pass.at_layer(
            l,
            host_hidden<float>(hidden.data(), rows, 2),
            host_state<float>(stored.data() + static_cast<std::ptrdiff_t>(l) * 37 * 2, 37, 2));
        if (step == 1 && l == 2) {  // int(0.25 * 37): the broken one, then the lowest that moved
          EXPECT_THAT(std::vector<index_t>(choice.positions.begin(), choice.positions.end()),
                      ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 20));
        }
      }
    }
    const std::vector<float> logits(pass.rows().size() * static_cast<std::size_t>(model.vocab));
    session.supply(
        host_logits<float>(logits.data(), static_cast<index_t>(pass.rows().size()), model.vocab));
  }
}

TEST(LayerSession, AModelWithoutLayersIsRefused) {
  model_info model = info_of(toy_transformer{});
  model.layers = 0;
  using skipping = session<std::remove_const_t<decltype(skipping_half)>>;
  EXPECT_THROW(skipping(model, {.sequences = 1, .length = 8, .window = 8}), std::invalid_argument);
}

}  // namespace
}  // namespace unmask::testing::session_test
