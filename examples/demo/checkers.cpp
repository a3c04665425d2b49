// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "demo/checkers.hpp"

#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>

namespace demo {

bool sudoku_6x6(std::string_view given, std::string_view answer) {
  constexpr std::size_t side = 6, box_rows = 2, box_columns = 3;
  if (given.size() != side * side || answer.size() != side * side) {
    return false;
  }
  std::array<unsigned, side> rows{}, columns{}, boxes{};  // the digits so far, a bit each
  for (std::size_t p = 0; p < answer.size(); ++p) {
    const char digit = answer[p];
    if (digit < '1' || digit > '6' || (given[p] != '_' && given[p] != digit)) {
      return false;
    }
    const std::size_t row = p / side, column = p % side;
    const std::size_t box = row / box_rows * box_rows + column / box_columns;
    const unsigned bit = 1U << (digit - '1');
    if (((rows[row] | columns[column] | boxes[box]) & bit) != 0) {
      return false;
    }
    rows[row] |= bit;
    columns[column] |= bit;
    boxes[box] |= bit;
  }
  return true;
}

checker find_checker(std::string_view name) {
  if (name == "sudoku_6x6") {
    return sudoku_6x6;
  }
  throw std::invalid_argument("checker must be sudoku_6x6, got '" + std::string(name) + "'");
}

}  // namespace demo
