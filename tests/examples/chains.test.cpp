// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The model of the chains in the example engine, beside PyTorch, and its problems.
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "demo/checkers.hpp"
#include "demo/problems.hpp"
#include "engine/llada.hpp"
#include "engine/tokenizer.hpp"
#include "engine_files.hpp"

namespace example {
namespace {

using tokens = std::vector<std::int32_t>;

const std::filesystem::path folder = std::filesystem::path(UNMASK_EXAMPLES_DIR) / "chains";

const gguf_file& file() {
  static const gguf_file f(folder / "chains-f16.gguf");
  return f;
}

std::vector<nlohmann::json> reference(const std::string& name) {
  return testing::json_lines(std::filesystem::path(UNMASK_TEST_DATA) / "chains" /
                             (name + ".jsonl"));
}

// The reference has the weights as they are in the file.
TEST(chains, logits_agree_with_pytorch) {
  llada_model model(file());
  EXPECT_EQ(model.config().layers, 12U);
  for (const nlohmann::json& line : reference("reference_logits")) {
    const auto sequence = line["tokens"].get<tokens>();
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
  tokens answer;
  int forwards = 0;
};

/// One problem under a threshold, its clues fixed by start_options::editable.
decode decoded(llada_model& model, const nlohmann::json& problem, float threshold) {
  const char_tokenizer text(file());
  const auto given = problem["given"].get<std::string>();
  tokens sequence = text.canvas(problem["prompt"].get<std::string>(), given.size());
  const std::size_t start = sequence.size() - given.size();
  std::vector<std::uint8_t> editable(start, 0);
  for (std::size_t p = 0; p < given.size(); ++p) {
    editable.push_back(given[p] == '_' ? 1 : 0);
    if (given[p] != '_') {
      sequence[start + p] = text.encode(given.substr(p, 1)).front();
    }
  }
  const auto length = static_cast<int>(sequence.size());
  const auto answer = static_cast<int>(given.size());
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
  return {tokens(sequence.end() - answer, sequence.end()), session.report(0).forwards};
}

TEST(chains, decodes_are_those_of_pytorch) {
  llada_model model(file());
  for (const nlohmann::json& line : reference("reference_decodes")) {
    for (const float threshold : {0.9F, 0.5F}) {
      const nlohmann::json& expected = line[threshold > 0.8F ? "threshold_0.9" : "threshold_0.5"];
      const decode d = decoded(model, line, threshold);
      EXPECT_EQ(d.answer, expected["tokens"].get<tokens>()) << line["given"] << threshold;
      EXPECT_EQ(d.forwards, expected["forwards"].get<int>()) << line["given"] << threshold;
    }
  }
}

TEST(chains, test_problems_are_what_the_page_says) {
  std::map<std::string, int> count;
  for (const demo::problem& p : demo::read_problems(folder / "problems.jsonl")) {
    ++count[p.task];
    EXPECT_NE(p.given.find('_'), std::string::npos);
    EXPECT_LE(p.given.size(), 68U);
    EXPECT_FALSE(demo::is_right(p, p.given)) << p.given;
    if (p.checker.empty()) {
      EXPECT_TRUE(demo::is_right(p, p.answer)) << p.given;
    }
  }
  EXPECT_EQ(count,
            (std::map<std::string, int>{
                {"trace", 240}, {"path", 240}, {"copy", 240}, {"sort", 240}, {"shuffle", 240}}));
}

}  // namespace
}  // namespace example
