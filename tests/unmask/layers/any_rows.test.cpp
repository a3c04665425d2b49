// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <vector>

#include "support/bound_session.hpp"
#include "support/by_name.hpp"
#include "support/layered_decode.hpp"

namespace unmask::testing::any_rows_test {
namespace {

const auto skipping_half = by_name(policy{by_confidence{},
                                          threshold{0.5F},
                                          early_skip{},
                                          block_cache{.prompt_period = 16, .block_period = 4}});
const auto plain = by_name(policy{by_confidence{}, threshold{0.5F}});
constexpr sequence_shape shape{.prompt_length = 5, .length = 37, .block_length = 16, .seed = 3};

/// A pass that is given rows without their element type.
template <class Pass>
struct untyped_pass : Pass {
  layer_choice
  at_layer(index_t layer, const host_hidden<float>& now, const host_state<float>& previous) {
    return Pass::at_layer(layer, any_rows(now), any_state(previous));
  }
};
template <class Pass>
untyped_pass(Pass) -> untyped_pass<Pass>;

template <class Policy>
layered_result decode_untyped(const toy_transformer& model, const Policy& p) {
  const session_capacity capacity{.sequences = 1, .length = shape.length, .window = 16};
  const auto session = make_bound(p, info_of(model), capacity);
  layered_result result;
  result.tokens = prompted(model, shape);
  toy_memory memory(model.layers, shape.length, toy_transformer::width);
  session->start(0, result.tokens.data(), shape.length, shape);
  while (const auto request = session->next()) {
    untyped_pass pass{session->pass(0)};
    EXPECT_EQ(pass.about().slot, 0);
    const std::vector<float> logits = model.forward(pass, result.tokens.data(), memory);
    const auto rows = static_cast<index_t>(pass.rows().size());
    session->read(0, any_rows(host_logits<float>(logits.data(), rows, model.vocab)));
    EXPECT_TRUE(session->planned(0).active());
    session->decide();
    for (const commit_entry& c : session->committed(0)) {
      result.commits.push_back(c);
    }
  }
  result.computed = memory.computed;
  result.report = session->report(0);
  return result;
}

template <class Policy>
void expect_same_as_typed(const Policy& p) {
  const toy_transformer model;
  const layered_result typed = decode_layered(model, p, shape);
  const layered_result untyped = decode_untyped(model, p);
  EXPECT_TRUE(same_decode(typed, untyped));
  EXPECT_EQ(typed.computed, untyped.computed);
  EXPECT_EQ(typed.report.forwards, untyped.report.forwards);
}

TEST(untyped_rows_at_a_layer, decide_as_typed_ones) {
  expect_same_as_typed(plain);
  expect_same_as_typed(skipping_half);
}

TEST(layer_pass, says_what_the_rule_of_its_sequence_is) {
  const toy_transformer model;
  const session_capacity capacity{.sequences = 1, .length = shape.length, .window = 16};
  const auto expect = [&](const auto& policy, bool hooked) {
    const auto session = make_bound(policy, info_of(model), capacity);
    std::vector<token_id> tokens = prompted(model, shape);
    session->start(0, tokens.data(), shape.length, shape);
    ASSERT_TRUE(session->next());
    const auto pass = session->pass(0);
    EXPECT_EQ(pass.has_hooks, hooked);
    EXPECT_EQ(pass.reads, feature::hidden);
    EXPECT_EQ(pass.skipped, skipping::dropped);
    EXPECT_EQ(pass.hooks(1), hooked);
    EXPECT_EQ(pass.positions().size(), 37U);
  };
  expect(skipping_half, true);
  expect(plain, false);
}

TEST(untyped_rows_at_a_layer, are_refused_with_a_name_and_change_nothing) {
  const toy_transformer model;
  const session_capacity capacity{.sequences = 1, .length = shape.length, .window = 16};
  const auto session = make_bound(skipping_half, info_of(model), capacity);
  std::vector<token_id> tokens = prompted(model, shape);
  session->start(0, tokens.data(), shape.length, shape);
  EXPECT_THROW(static_cast<void>(session->pass(0)), std::logic_error);
  ASSERT_TRUE(session->next());
  EXPECT_THROW(static_cast<void>(session->pass(1)), std::invalid_argument);
  auto pass = session->pass(0);
  std::vector<float> memory(37 * 4);
  std::vector<bfloat16> narrow(37 * 4);
  const host_hidden<float> now(memory.data(), 37, 4);
  const host_state<float> stored(memory.data(), 37, 4);
  const auto untyped = [&](const any_rows& rows, const any_state& state) {
    return pass.at_layer(1, rows, state);
  };
  EXPECT_THROW(untyped(now, host_state<bfloat16>(narrow.data(), 37, 4)), std::invalid_argument);
  EXPECT_THROW(untyped(now, device_state<float>(memory.data(), 37, 4)), std::invalid_argument);
  EXPECT_THROW(untyped(device_hidden<float>(memory.data(), 37, 4), stored), std::invalid_argument);
  EXPECT_THROW(session->read(0, host_logits<float>(memory.data(), 1, 24)), std::logic_error);
  EXPECT_EQ(pass.at_layer(1, now, stored).positions.size(), 37U);
}

}  // namespace
}  // namespace unmask::testing::any_rows_test
