// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// rxnmapper, antiberty and sapiens in the example engine, beside transformers. Their files are made
// by `bash tests/masked_lms.sh`; without them these tests are skipped.
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/llada.hpp"
#include "engine/tokenizer.hpp"
#include "engine_files.hpp"

namespace example::masked_lms_test {
namespace {

using tokens = std::vector<std::int32_t>;

class masked_lms : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(path())) {
      GTEST_SKIP() << path() << " is not there: bash tests/masked_lms.sh makes it";
    }
  }
  static std::filesystem::path path() {
    const char* const folder = std::getenv("UNMASK_MASKED_LMS");
    const auto models = folder != nullptr
                            ? std::filesystem::path(folder)
                            : std::filesystem::path(UNMASK_EXAMPLES_DIR) / "../build/masked_lms";
    return models / (GetParam() + ".gguf");
  }
  static std::vector<nlohmann::json> reference() {
    return testing::json_lines(std::filesystem::path(UNMASK_TEST_DATA) / "masked_lms" /
                               (GetParam() + ".jsonl"));
  }
};

// Measured: 2e-5, 2e-5 and 2e-6, the logits between -24 and 36. The reference is in double
// precision.
TEST_P(masked_lms, logits_agree_with_transformers) {
  llada_model model{gguf_file(path())};
  const nlohmann::json line = reference().front();
  const auto sequence = line["tokens"].get<tokens>();
  const auto rows = line["rows"].get<std::vector<std::size_t>>();
  double largest = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto expected = line["logits"][i].get<std::vector<double>>();
    const logits_view z = model.forward(sequence, rows[i], rows[i] + 1);
    ASSERT_EQ(expected.size(), z.vocabulary);
    for (std::size_t token = 0; token < expected.size(); ++token) {
      const double difference = std::abs(double(z.row(0)[token]) - expected[token]);
      ASSERT_LE(difference, 2e-4) << "position " << rows[i] << ", token " << token;
      largest = std::max(largest, difference);
    }
  }
  RecordProperty("largest_difference", std::to_string(largest));
}

TEST_P(masked_lms, decodes_are_those_of_transformers) {
  const gguf_file file(path());
  llada_model model(file);
  const char_tokenizer text(file);
  const std::vector<nlohmann::json> lines = reference();
  const auto vocab = static_cast<int>(text.vocabulary());
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const auto given = lines[i]["given"].get<std::string>();
    tokens sequence = text.canvas("", text.encode_masked(given));
    const auto length = static_cast<int>(sequence.size());
    const bool edits = lines[i].contains("edit");
    const unmask::policy rule{unmask::by_confidence{},
                              unmask::threshold{0.9F},
                              unmask::edit_committed{edits ? 0.7F : 1.0F},
                              unmask::edited_blocks{edits ? 16 : 0}};
    unmask::session<std::remove_const_t<decltype(rule)>> session(
        {.vocab = vocab, .mask_token = text.mask()},
        {.sequences = 1, .length = length, .window = length});
    std::vector<std::uint8_t> editable = text.masked(sequence);
    if (edits) {  // all but begin and end
      std::fill(editable.begin() + 1, editable.end() - 1, std::uint8_t{2});
    }
    session.start(0,
                  rule,
                  sequence,
                  {.prompt_length = 1, .length = length, .block_length = length},
                  {.editable = editable, .suppressed = text.never()});
    while (const auto request = session.next()) {
      const auto [first, last] = request->segments[0].rows;
      const logits_view z =
          model.forward(sequence, static_cast<std::size_t>(first), static_cast<std::size_t>(last));
      session.supply(unmask::host_logits<float>(z.data, request->rows, vocab));
    }
    EXPECT_EQ(sequence, lines[i]["tokens"].get<tokens>()) << given;
    EXPECT_EQ(session.report(0).forwards, lines[i]["forwards"].get<int>()) << given;
  }
}

TEST(masked_lms_problems, are_what_the_page_says) {
  const std::filesystem::path folder = std::filesystem::path(UNMASK_EXAMPLES_DIR) / "masked_lms";
  for (const char* name : {"reactions", "antibodies"}) {
    const auto lines = testing::json_lines(folder / (std::string(name) + ".jsonl"));
    ASSERT_EQ(lines.size(), name[0] == 'r' ? 600U : 180U);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const auto given = lines[i]["given"].get<std::string>();
      const auto answer = lines[i]["answer"].get<std::string>();
      const double share = i % 3 == 0 ? 15 : i % 3 == 1 ? 30 : 50;
      EXPECT_EQ(lines[i]["task"], "mask_" + std::to_string(static_cast<int>(share)));
      EXPECT_EQ(answer, lines[i / 3 * 3]["answer"]);
      if (name[0] == 'a') {  // one character a token
        const auto masked = static_cast<double>(std::ranges::count(given, '_'));
        EXPECT_NEAR(masked, share / 100 * static_cast<double>(answer.size()), 0.51) << given;
        EXPECT_TRUE(
            std::ranges::equal(given, answer, [](char a, char b) { return a == '_' || a == b; }));
      }
    }
  }
}

TEST(masked_lms_problems, of_heavy_chains_are_what_the_page_says) {
  const auto lines = testing::json_lines(std::filesystem::path(UNMASK_EXAMPLES_DIR) / "masked_lms" /
                                         "heavy_chains.jsonl");
  ASSERT_EQ(lines.size(), 400U);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto given = lines[i]["given"].get<std::string>();
    const auto answer = lines[i]["answer"].get<std::string>();
    const double share = i % 2 == 0 ? 5 : 15;
    EXPECT_EQ(lines[i]["task"], "edit_" + std::to_string(static_cast<int>(share)));
    EXPECT_EQ(answer, lines[i / 2 * 2]["answer"]);
    ASSERT_EQ(given.size(), answer.size());
    double wrong = 0;
    for (std::size_t k = 0; k < given.size(); ++k) {
      wrong += given[k] != answer[k] ? 1 : 0;
    }
    EXPECT_NEAR(wrong, share / 100 * static_cast<double>(answer.size()), 0.51) << given;
    EXPECT_TRUE(lines[i]["edit"].get<bool>());
  }
}

INSTANTIATE_TEST_SUITE_P(fetched,
                         masked_lms,
                         ::testing::Values("rxnmapper", "antiberty", "sapiens_heavy"),
                         [](const auto& model) { return model.param; });

}  // namespace
}  // namespace example::masked_lms_test
