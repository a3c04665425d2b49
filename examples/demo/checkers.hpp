// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string_view>

namespace demo {

/// True if `answer` is right for a problem whose answer started as `given`, with '_' for a masked
/// position.
using checker = bool (*)(std::string_view given, std::string_view answer);

/// True if a grid of 6 x 6 digits, row by row, has 1 to 6 once in each row, in each column and in
/// each box of 2 rows and 3 columns, and the digits of `given` where that has some. False for texts
/// of any other length and for any other character.
bool sudoku_6x6(std::string_view given, std::string_view answer);

/// The checker that problems name: "sudoku_6x6". Throws std::invalid_argument for another name.
checker find_checker(std::string_view name);

}  // namespace demo
