// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The body that chooses the rows of a layer, run by teams of many lanes: it must choose what one
// lane chooses, whatever the number of lanes and the order they come in.

#include <unmask/step/decide.hpp>
#include <unmask/step/layer_choice.hpp>
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <vector>

#include "support/dice.hpp"
#include "support/emulated_block.hpp"

namespace unmask::testing {
namespace {

constexpr limits capacity{.sequences = 1, .length = 70, .window = 32, .vocab = 50, .layers = 8};
constexpr layout shape{.prompt = 9, .length = 70, .block_length = 30};

/// A started sequence in memory of its own.
template <class Policy>
struct lone_sequence {
  std::vector<token_id> tokens = std::vector<token_id>(70, 1);
  std::vector<std::byte> memory =
      std::vector<std::byte>(step::slot_bytes<Policy>(capacity) + step::slot_layout::alignment);
  step::slot_status status;
  step::slot_memory<Policy> m;

  explicit lone_sequence(const Policy& p) {
    std::size_t bytes = 0;
    auto at = reinterpret_cast<std::uintptr_t>(memory.data());
    at = (at + step::slot_layout::alignment - 1) / step::slot_layout::alignment *
         step::slot_layout::alignment;
    m = step::slot_memory_at<Policy>(reinterpret_cast<std::byte*>(at), 0, capacity, bytes);
    m.status = &status;
    std::construct_at(m.policy, p);
    std::construct_at(m.sequence);
    std::construct_at(m.tallies);
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
  [[nodiscard]] std::vector<index_t> present() const {
    return {m.layers.present, m.layers.present + m.layers.state->present};
  }
};

template <class Policy>
void same_choices(const Policy& p, index_t threads, std::uint64_t seed) {
  dice d(seed);
  lone_sequence<Policy> alone(p);
  lone_sequence<Policy> many(p);
  block_emulator block(threads, seed);
  step::begin(solo{}, alone.m, nullptr);
  block.run([&](const emulated_block& t) { step::begin(t, many.m, nullptr); });
  for (int steps = 0; steps < 9 && alone.status.next.active(); ++steps) {
    ASSERT_EQ(alone.present(), many.present());
    for (index_t l = 0; l < capacity.layers; ++l) {
      if (!step::hooks(alone.m, l)) {
        continue;
      }
      for (index_t i = 0; i < alone.m.layers.state->present; ++i) {
        // Few different values, so that importances tie.
        const float drift =
            d.chance(0.03) ? std::nanf("") : 0.125F * static_cast<float>(d.within(0, 9));
        alone.m.layers.drift[i] = many.m.layers.drift[i] = drift;
      }
      step::begin_layer(alone.m, l);
      step::choose_rows(solo{}, alone.m);
      block.run([&](const emulated_block& t) {
        if (t.lane() == 0) {
          step::begin_layer(many.m, l);
        }
        t.sync();
        step::choose_rows(t, many.m);
      });
      ASSERT_EQ(alone.chosen(), many.chosen()) << "step " << steps << ", layer " << l;
      ASSERT_EQ(alone.present(), many.present());
      ASSERT_EQ(math::bits_of(alone.m.layers.state->info.mean),
                math::bits_of(many.m.layers.state->info.mean));
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
    step::decide(solo{}, alone.m);
    block.run([&](const emulated_block& t) { step::decide(t, many.m); });
    ASSERT_EQ(alone.tokens, many.tokens);
  }
}

TEST(EmulatedLayers, ATeamChoosesWhatOneLaneDoes) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    for (const index_t threads : {1, 32, 96}) {
      same_choices(policy{by_confidence{}, confidence_above{0.6F}, early_skip{}, block_cache{3, 2}},
                   threads,
                   seed);
      same_choices(policy{by_confidence{},
                          confidence_above{0.6F},
                          cache_budget{.budget = 6, .window = 4},
                          delayed_cache{3}},
                   threads,
                   seed);
    }
  }
}

}  // namespace
}  // namespace unmask::testing
