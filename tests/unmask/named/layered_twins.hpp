// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Layer rules by name beside the same parts composed.

#include <unmask/named_policy.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/layered_decode.hpp"

namespace unmask::testing {

/// Expects that the policy of a text decides, computes and is called as `composed`.
template <class Policy>
void expect_same_layered_decode(const std::string& text, const Policy& composed) {
  SCOPED_TRACE(text);
  constexpr sequence_shape shape{.prompt_length = 5, .length = 37, .block_length = 16, .seed = 3};
  constexpr session_capacity capacity{.sequences = 1, .length = 37, .window = 37};
  const toy_transformer model;
  const layered_result expected = decode_layered(model, composed, shape);
  const named_policy by_name = read_policy(text);
  named_session session(by_name, info_of(model), capacity);
  layered_result result;
  result.tokens = prompted(model, shape);
  toy_memory memory(model.layers, shape.length, toy_transformer::width);
  session.start(0, by_name, result.tokens, shape);
  const layer_rule_info rule = layer_rule_of(composed);
  while (session.next()) {
    auto pass = session.pass(0);
    ASSERT_EQ(pass.has_hooks, rule.has_hooks);
    if (rule.has_hooks) {
      ASSERT_EQ(pass.reads, rule.reads);
      ASSERT_EQ(pass.skipped, rule.skipped);
    }
    const std::vector<float> logits = model.forward(pass, result.tokens.data(), memory);
    const auto rows = static_cast<index_t>(pass.rows().size());
    session.read(0, host_logits<float>(logits.data(), rows, model.vocab));
    session.decide();
    for (const commit_entry& c : session.committed(0)) {
      result.commits.push_back(c);
    }
  }
  EXPECT_TRUE(same_decode(expected, result));
  EXPECT_EQ(memory.computed, expected.computed);
  EXPECT_EQ(session.report(0).forwards, expected.report.forwards);
  EXPECT_LT(memory.computed, long{expected.report.forwards} * shape.length * model.layers);
}

}  // namespace unmask::testing
