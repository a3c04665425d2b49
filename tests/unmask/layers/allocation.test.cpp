// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A pass through the layers allocates nothing.

#include <unmask/host/key_selector.hpp>
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <vector>

#include "support/by_name.hpp"
#include "support/count_allocations.hpp"

namespace unmask::testing::allocation_test {
namespace {

constexpr index_t length = 40;
constexpr index_t width = 33;
constexpr index_t vocab = 9;
constexpr index_t layers = 4;

/// Decodes with given features and logits; returns the allocations between start() and the end.
template <class Policy>
long allocations_of(const Policy& p) {
  std::vector<token_id> tokens(length, vocab - 1);
  std::vector<float> hidden(length * width, 1.0F);
  std::vector<float> stored(layers * length * width, 0.5F);
  std::vector<float> logits(length * vocab);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = static_cast<float>(i * 7 % 11);
  }
  session session(p,
                  model_info{.vocab = vocab, .mask_token = vocab - 1, .layers = layers},
                  tokens,
                  sequence_shape{.prompt_length = 5, .length = length, .block_length = 12});
  const allocation_count count;
  while (const auto request = session.next()) {
    auto pass = session.pass(0);
    for (index_t l = 0; l < layers; ++l) {
      if (pass.hooks(l)) {
        hidden[static_cast<std::size_t>(l)] += 1.0F;
        static_cast<void>(pass.at_layer(
            l,
            host_hidden<float>(hidden.data(), static_cast<index_t>(pass.positions().size()), width),
            host_state<float>(stored.data() + l * length * width, length, width)));
      }
    }
    session.read(
        0, host_logits<float>(logits.data(), static_cast<index_t>(pass.rows().size()), vocab));
    session.decide();
  }
  return count.value();
}

TEST(LayerAllocation, NoneInAPass) {
  EXPECT_EQ(allocations_of(by_name(policy{by_confidence{},
                                          tokens_per_step{2},
                                          early_skip{},
                                          block_cache{5, 2},
                                          trace_credit<8>{}})),
            0);
  EXPECT_EQ(allocations_of(by_name(policy{by_confidence{},
                                          tokens_per_step{2},
                                          cache_budget{.budget = 5},
                                          delayed_cache{3},
                                          key_eviction{}})),
            0);
}

TEST(LayerAllocation, NoneInASelectionOfKeys) {
  host::key_selector selector(64);
  const std::vector<float> scores(64, 1.0F);
  const allocation_count count;
  EXPECT_EQ(selector.select(scores, {10, 20}, 0.5, 3).size(), 27U);
  EXPECT_EQ(count.value(), 0);
}

}  // namespace
}  // namespace unmask::testing::allocation_test
