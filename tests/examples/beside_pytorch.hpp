// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/llada.hpp"
#include "engine/tokenizer.hpp"
#include "engine_files.hpp"

// Comparisons of the example engine with the results of PyTorch, for models whose problems have
// fixed positions.
namespace example::testing {

/// Expects the logits of each line's `tokens` to be its `logits`. The reference has the weights as
/// they are in the file, so the difference is that of sums in another order: the same bound as for
/// the tiny LLaDA's f32 file.
inline void expect_logits(llada_model& model, const std::vector<nlohmann::json>& lines) {
  for (const nlohmann::json& line : lines) {
    const auto sequence = line["tokens"].get<std::vector<std::int32_t>>();
    const logits_view logits = model.forward(sequence, 0, sequence.size());
    ASSERT_EQ(logits.rows, line["logits"].size());
    for (std::size_t row = 0; row < logits.rows; ++row) {
      const auto expected = line["logits"][row].get<std::vector<float>>();
      ASSERT_EQ(expected.size(), logits.vocabulary);
      for (std::size_t token = 0; token < expected.size(); ++token) {
        ASSERT_NEAR(logits.row(row)[token], expected[token], 1e-3) << row << ", " << token;
      }
    }
  }
}

struct decode {
  std::vector<std::int32_t> answer;
  int forwards = 0;
};

/// Decodes one problem under a threshold, in one block. The tokens of `given` that are not masked
/// ('_') are fixed by start_options::editable.
inline decode decode_given(llada_model& model,
                           const char_tokenizer& text,
                           const std::string& prompt,
                           const std::string& given,
                           float threshold) {
  std::vector<std::int32_t> sequence = text.canvas(prompt, 0);
  const std::vector<std::int32_t> canvas = text.encode_masked(given);
  sequence.insert(sequence.end(), canvas.begin(), canvas.end());
  const std::vector<std::uint8_t> editable = text.masked(sequence);
  const auto length = static_cast<int>(sequence.size());
  const auto answer = static_cast<int>(canvas.size());
  const auto vocab = static_cast<int>(text.vocabulary());
  unmask::policy rule{unmask::by_confidence{}, unmask::threshold{threshold}};
  unmask::session<decltype(rule)> session({.vocab = vocab, .mask_token = text.mask()},
                                          {.sequences = 1, .length = length, .window = answer});
  session.start(0,
                rule,
                sequence,
                {.prompt_length = length - answer, .length = length, .block_length = answer},
                {.editable = editable});
  while (const auto request = session.next()) {
    const auto [first, last] = request->segments[0].rows;
    const logits_view z =
        model.forward(sequence, static_cast<std::size_t>(first), static_cast<std::size_t>(last));
    session.supply(unmask::host_logits<float>(z.data, request->rows, vocab));
  }
  return {{sequence.end() - answer, sequence.end()}, session.report(0).forwards};
}

}  // namespace example::testing
