// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string_view>

namespace demo {

struct problem;

/// True if `answer` is right for a problem. Any text may be asked about.
using checker = bool (*)(const problem& p, std::string_view answer);

/// True if a grid of 6 x 6 digits, row by row, has 1 to 6 once in each row, in each column and in
/// each box of 2 rows and 3 columns, and the digits of `given` where that has some. False for texts
/// of any other length and for any other character.
bool sudoku_6x6(std::string_view given, std::string_view answer);

/// True if each piece of `answer` is a shortest path between the ends that `given` has in its
/// place. The prompt "path:ab,bc,bd:" has undirected edges between nodes of one letter; to
/// "a_c,c_d" it is "abc,cbd".
bool shortest_paths(std::string_view prompt, std::string_view given, std::string_view answer);

/// True if each piece of `answer` makes its target from its three digits, each used once, and keeps
/// the characters of `given`. To "239>15:___=_;___=15" it is "239>15:2*3=6;6+9=15": two operations,
/// of which the second uses the result of the first. Operations are +, - and *, results are not
/// negative.
bool countdown(std::string_view given, std::string_view answer);

/// True if each word of `answer` is one of those accepted in its place: "care|core tea" accepts
/// "care tea" and "core tea".
bool accepted_words(std::string_view accepted, std::string_view answer);

/// True if `answer` has the characters of the prompt's list in another order than the list: "ba"
/// and not "ab" for "shuffle:ab:".
bool other_order(std::string_view prompt, std::string_view answer);

/// The checker that problems name: sudoku_6x6, shortest_paths, countdown, accepted_words, which
/// takes the words of the problem's `answer`, or other_order. Throws std::invalid_argument for
/// another name.
checker find_checker(std::string_view name);

}  // namespace demo
