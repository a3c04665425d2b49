// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Layer rules by name beside the same parts composed.

#include <unmask/any_layer_session.hpp>
#include <unmask/named_policy.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/layered_decode.hpp"

namespace unmask::testing {

/// Expects that the policy of a text decides, computes and is called as `composed`. Sessions are of
/// the types `Compositions`.
template <class Compositions, class Policy>
void expect_same_layered_decode(const std::string& text, const Policy& composed) {
  SCOPED_TRACE(text);
  constexpr sequence_shape shape{.prompt_length = 5, .length = 37, .block_length = 16, .seed = 3};
  constexpr session_capacity capacity{.sequences = 1, .length = 37, .window = 37};
  using typed = layer_session<Policy>;
  const toy_transformer model;
  const layered_result expected = decode_layered(model, composed, shape);
  const auto session =
      make_any_layer_session<Compositions>(read_policy(text), info_of(model), capacity);
  layered_result result;
  result.tokens = prompted(model, shape);
  toy_memory memory(model.layers, shape.length, toy_transformer::width);
  session->start(0, result.tokens.data(), shape.length, shape);
  while (session->next()) {
    erased_pass<typed::reads, typed::skipped> pass{session->pass(0)};
    if (typed::has_hooks) {
      ASSERT_EQ(pass.pass.reads, typed::reads);
      ASSERT_EQ(pass.pass.skipped, typed::skipped);
    }
    const std::vector<float> logits = model.forward(pass, result.tokens.data(), memory);
    const auto rows = static_cast<index_t>(pass.rows().size());
    session->read(0, host_logits<float>(logits.data(), rows, model.vocab));
    session->decide();
    for (const commit_entry& c : session->committed(0)) {
      result.commits.push_back(c);
    }
  }
  EXPECT_TRUE(same_decode(expected, result));
  EXPECT_EQ(memory.computed, expected.computed);
  EXPECT_EQ(session->report(0).forwards, expected.report.forwards);
  EXPECT_LT(memory.computed, long{expected.report.forwards} * shape.length * model.layers);
}

}  // namespace unmask::testing
