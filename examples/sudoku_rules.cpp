// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rules that are no automaton: a part that refuses a digit which a row, a column or a box has
// already. Decodes Sudokus with a small model under several thresholds, without the rules, with
// them as a gate, and with a gate and a bitmask of the digits that are left, and prints what they
// do to right answers and passes:
//
//     sudoku_rules [PUZZLES]
#include <unmask/unmask.hpp>

#include <nlohmann/json.hpp>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "demo/checkers.hpp"
#include "engine/llada.hpp"
#include "engine/tokenizer.hpp"

namespace {

constexpr int side = 6;
constexpr int cells = side * side;

/// True if two cells of a grid, row by row, must have different digits: those of a row, a column or
/// a box of two rows and three columns.
constexpr bool see_each_other(int a, int b) {
  const int row_a = a / side;
  const int row_b = b / side;
  const int column_a = a % side;
  const int column_b = b % side;
  return a != b && (row_a == row_b || column_a == column_b ||
                    (row_a / 2 == row_b / 2 && column_a / 3 == column_b / 3));
}

// [gating]
/// Refuses a digit that a cell in the same row, column or box has: one that stands, or one that has
/// passed before it in the same step.
struct sudoku_rules {
  static constexpr unmask::statistics required = unmask::stat::none;

  bool admits(int position, int token, const auto& context) const {
    const unmask::sequence_view& q = *context.at.view;
    for (int p = q.prompt_length; p < q.length; ++p) {
      if (see_each_other(p - q.prompt_length, position - q.prompt_length) && q.tokens[p] == token) {
        return false;
      }
    }
    return true;
  }
};
static_assert(unmask::gating<sudoku_rules>);
// [/gating]

struct outcome {
  std::vector<bool> right;
  int passes = 0;
  int refused = 0;
  int illegal = 0;    // cells with the digit of a cell that they see
  bool holds = true;  // a grid in which no commit was forced has none
};

struct judge {
  example::gguf_file file{UNMASK_EXAMPLES_DIR "/sudoku/sudoku-f16.gguf"};
  example::char_tokenizer text{file};
  example::llada_model engine{file};
  std::vector<std::string> puzzles;

  explicit judge(std::size_t count) {
    std::ifstream in(UNMASK_EXAMPLES_DIR "/sudoku/puzzles.jsonl");
    for (std::string line; puzzles.size() < count && std::getline(in, line);) {
      puzzles.push_back(nlohmann::json::parse(line)["given"]);
    }
  }

  /// Bits of the tokens of a cell that no cell which it sees has.
  [[nodiscard]] std::uint32_t left_for(int cell, std::span<const int> grid) const {
    std::uint32_t allowed = (1U << text.vocabulary()) - 1;
    for (int other = 0; other < cells; ++other) {
      const int token = grid[std::size_t(other)];
      allowed &= see_each_other(cell, other) && token != text.mask() ? ~(1U << token) : ~0U;
    }
    return allowed;
  }

  template <class Policy>
  [[nodiscard]] outcome run(const Policy& p, bool masks) {
    outcome out;
    const int vocab = int(text.vocabulary());
    const unmask::model_info model{
        .vocab = vocab, .mask_token = text.mask(), .eos_token = text.end()};
    for (const std::string& given : puzzles) {
      std::vector<int> tokens = text.canvas("", text.encode_masked(given));
      const std::vector<std::uint8_t> editable = text.masked(tokens);
      const int length = int(tokens.size());
      const int first = length - cells;
      const auto grid = std::span(tokens).last(cells);
      unmask::session<Policy> session(model, {.length = length, .window = cells});
      session.start(0,
                    p,
                    tokens,
                    {.prompt_length = first, .length = length, .block_length = cells},
                    {.editable = editable});
      while (const auto request = session.next()) {
        const auto rows = request->segments[0].rows;
        const auto logits = engine.forward(tokens, std::size_t(rows.first), std::size_t(rows.last));
        std::vector<std::uint32_t> allowed;
        for (int row = rows.first; masks && row < rows.last; ++row) {
          allowed.push_back(left_for(row - first, grid));
        }
        session.supply(unmask::host_logits<float>(logits.data, request->rows, vocab),
                       {.allowed = masks ? allowed.data() : nullptr, .allowed_stride = 1});
      }
      int illegal = 0;
      for (int a = 0; a < cells; ++a) {
        bool repeats = false;
        for (int b = 0; b < cells; ++b) {
          repeats =
              repeats || (see_each_other(a, b) && grid[std::size_t(a)] == grid[std::size_t(b)]);
        }
        illegal += repeats ? 1 : 0;
      }
      out.illegal += illegal;
      out.holds = out.holds && (illegal == 0 || session.report().forced > 0);
      out.right.push_back(demo::sudoku_6x6(given, text.decode(grid)));
      out.passes += session.report().forwards;
      out.refused += session.report().refused;
    }
    return out;
  }
};

void print(const char* name, const outcome& o, const outcome& control) {
  const double n = double(o.right.size());
  int right = 0;
  int gained = 0;
  int lost = 0;
  for (std::size_t i = 0; i < o.right.size(); ++i) {
    right += o.right[i] ? 1 : 0;
    gained += o.right[i] && !control.right[i] ? 1 : 0;
    lost += !o.right[i] && control.right[i] ? 1 : 0;
  }
  const double d = gained - lost;
  const double half = 1.96 * std::sqrt(gained + lost - d * d / n);
  std::printf("%-26s %5d right %5.2f passes %6d refused %5d illegal  +%d -%d, %+.1f to %+.1f\n",
              name,
              right,
              o.passes / n,
              o.refused,
              o.illegal,
              gained,
              lost,
              100 * (d - half) / n,
              100 * (d + half) / n);
}

}  // namespace

int main(int argc, char** argv) {
  judge all(argc > 1 ? std::size_t(std::atoi(argv[1])) : 20);
  bool holds = true;
  outcome at_half;
  for (const float value : {0.99F, 0.9F, 0.8F, 0.7F, 0.5F, 0.0F}) {
    const unmask::policy plain{unmask::by_confidence{}, unmask::threshold{value}};
    const unmask::policy gated{unmask::by_confidence{}, unmask::threshold{value}, sudoku_rules{}};
    const outcome none = all.run(plain, false);
    const outcome gate = all.run(gated, false);
    const outcome both = all.run(gated, true);
    std::printf("threshold(%g), %zu puzzles\n", double(value), none.right.size());
    print("  no rules", none, none);
    print("  masks alone", all.run(plain, true), none);
    print("  gate", gate, none);
    print("  gate and masks", both, none);
    holds = holds && gate.holds && both.holds;
    at_half = value == 0.5F ? both : at_half;
  }
  const outcome as_many =
      all.run(unmask::policy{unmask::by_confidence{}, unmask::threshold{0.6F}}, false);
  std::printf("as many passes as gate and masks at 0.5\n");
  print("  threshold(0.6), no rules", as_many, as_many);
  print("  gate and masks at 0.5", at_half, as_many);
  return holds ? 0 : 1;
}
