// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The Sudoku model in the example engine, beside PyTorch, and the checker of its answers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "beside_pytorch.hpp"
#include "demo/checkers.hpp"
#include "engine/llada.hpp"
#include "engine/tokenizer.hpp"

namespace example::sudoku_test {
namespace {

using tokens = std::vector<std::int32_t>;

const std::filesystem::path folder = std::filesystem::path(UNMASK_EXAMPLES_DIR) / "sudoku";

const gguf_file& file() {
  static const gguf_file f(folder / "sudoku-f16.gguf");
  return f;
}

std::vector<nlohmann::json> reference(const std::string& name) {
  return testing::json_lines(std::filesystem::path(UNMASK_TEST_DATA) / "sudoku" /
                             (name + ".jsonl"));
}

TEST(sudoku, logits_agree_with_pytorch) {
  llada_model model(file());
  EXPECT_EQ(model.config().layers, 8U);
  testing::expect_logits(model, reference("reference_logits"));
}

TEST(sudoku, decodes_are_those_of_pytorch) {
  llada_model model(file());
  const char_tokenizer text(file());
  std::size_t right = 0;
  const std::vector<nlohmann::json> lines = reference("reference_decodes");
  for (const nlohmann::json& line : lines) {
    const auto given = line["given"].get<std::string>();
    for (const float threshold : {0.9F, 0.5F}) {
      const nlohmann::json& expected = line[threshold > 0.8F ? "threshold_0.9" : "threshold_0.5"];
      const testing::decode d = testing::decode_given(model, text, "", given, threshold);
      EXPECT_EQ(d.answer, expected["tokens"].get<tokens>()) << given << " above " << threshold;
      EXPECT_EQ(d.forwards, expected["forwards"].get<int>()) << given << " above " << threshold;
      right += threshold > 0.8F && demo::sudoku_6x6(given, text.decode(d.answer)) ? 1U : 0U;
    }
  }
  EXPECT_GE(right, lines.size() * 4 / 5);  // a judge, not a coin
}

TEST(sudoku, test_puzzles_are_what_the_page_says) {
  const std::vector<nlohmann::json> lines = testing::json_lines(folder / "puzzles.jsonl");
  EXPECT_GE(lines.size(), 1000U);
  for (const nlohmann::json& line : lines) {
    const auto given = line["given"].get<std::string>();
    ASSERT_EQ(given.size(), 36U);
    const auto clues = 36 - std::ranges::count(given, '_');
    EXPECT_TRUE(10 <= clues && clues <= 14) << given;
    EXPECT_EQ(line["checker"], "sudoku_6x6");
  }
}

// A full grid: rows shifted by the width of a box, then by one.
const std::string full = "123456456123231564564231312645645312";

TEST(sudoku_checker, accepts_any_full_grid_that_keeps_the_clues) {
  const std::string open(36, '_');
  EXPECT_TRUE(demo::sudoku_6x6(open, full));
  EXPECT_TRUE(demo::sudoku_6x6(full, full));
  std::string renamed = full;  // another solution of the empty grid
  for (char& digit : renamed) {
    digit = digit == '1' ? '2' : digit == '2' ? '1' : digit;
  }
  EXPECT_TRUE(demo::sudoku_6x6(open, renamed));
  EXPECT_FALSE(demo::sudoku_6x6(full, renamed));
}

TEST(sudoku_checker, refuses_one_wrong_cell_anywhere) {
  const std::string open(36, '_');
  for (std::size_t p = 0; p < full.size(); ++p) {
    for (const char digit : std::string("1234567_0")) {
      std::string answer = full;
      answer[p] = digit;
      EXPECT_EQ(demo::sudoku_6x6(open, answer), answer == full) << p << ' ' << digit;
    }
    std::string clue = open;
    clue[p] = full[p] == '1' ? '2' : '1';
    EXPECT_FALSE(demo::sudoku_6x6(clue, full)) << p;
  }
}

TEST(sudoku_checker, refuses_a_grid_whose_rows_or_columns_or_boxes_repeat) {
  const std::string open(36, '_');
  const std::string rows = "123456123456123456123456123456123456";  // only the rows are right
  EXPECT_FALSE(demo::sudoku_6x6(open, rows));
  const std::string latin = "123456234561345612456123561234612345";  // rows and columns, no boxes
  EXPECT_FALSE(demo::sudoku_6x6(open, latin));
  EXPECT_FALSE(demo::sudoku_6x6(open, ""));
  EXPECT_FALSE(demo::sudoku_6x6(open, full + "1"));
  EXPECT_FALSE(demo::sudoku_6x6("", full));
}

}  // namespace
}  // namespace example::sudoku_test
