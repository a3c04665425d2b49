// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "demo/checkers.hpp"

#include <algorithm>
#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "demo/problems.hpp"

namespace demo {

namespace {

using texts = std::vector<std::string_view>;

/// The pieces of a text between separators; a single empty one for an empty text.
texts split(std::string_view text, char separator) {
  texts pieces;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t to = std::min(text.find(separator, from), text.size());
    pieces.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  return pieces;
}

/// The text between the first ':' of a prompt and the last character, which is another.
std::string_view inside(std::string_view prompt) {
  const std::size_t colon = prompt.find(':');
  return colon == std::string_view::npos || prompt.size() < colon + 2 || prompt.back() != ':'
             ? std::string_view{}
             : prompt.substr(colon + 1, prompt.size() - colon - 2);
}

constexpr std::size_t characters = 256;
std::size_t index(char c) {
  return static_cast<unsigned char>(c);
}

struct graph {
  std::array<std::bitset<characters>, characters> near;

  /// Edges of the shortest path, or no number.
  [[nodiscard]] std::optional<std::size_t> distance(char from, char to) const {
    std::bitset<characters> reached;
    reached.set(index(from));
    for (std::size_t edges = 0;; ++edges) {
      if (reached.test(index(to))) {
        return edges;
      }
      std::bitset<characters> next = reached;
      for (std::size_t node = 0; node < characters; ++node) {
        if (reached.test(node)) {
          next |= near[node];
        }
      }
      if (next == reached) {
        return std::nullopt;
      }
      reached = next;
    }
  }

  [[nodiscard]] bool has_path(std::string_view nodes) const {
    for (std::size_t i = 0; i + 1 < nodes.size(); ++i) {
      if (!near[index(nodes[i])].test(index(nodes[i + 1]))) {
        return false;
      }
    }
    return true;
  }
};

/// A whole number of one to six digits, or none.
std::optional<int> number_of(std::string_view text) {
  if (text.empty() || text.size() > 6 ||
      !std::all_of(text.begin(), text.end(), [](char c) { return '0' <= c && c <= '9'; })) {
    return std::nullopt;
  }
  return std::stoi(std::string(text));
}

struct operation {
  int left = 0, right = 0, result = 0;
};

/// "3*4=12", if that is right and the result is not negative.
std::optional<operation> operation_of(std::string_view text) {
  const std::size_t sign = text.find_first_of("+-*");
  const std::size_t equals = text.find('=');
  if (sign == std::string_view::npos || equals == std::string_view::npos || equals < sign) {
    return std::nullopt;
  }
  const auto left = number_of(text.substr(0, sign));
  const auto right = number_of(text.substr(sign + 1, equals - sign - 1));
  const auto result = number_of(text.substr(equals + 1));
  if (!left || !right || !result) {
    return std::nullopt;
  }
  const std::int64_t a = *left, b = *right;
  const std::int64_t value = text[sign] == '+' ? a + b : text[sign] == '-' ? a - b : a * b;
  return value == *result ? std::optional(operation{*left, *right, *result}) : std::nullopt;
}

/// True for "123>9:1+2=3;3*3=9": two operations make the target of three digits.
bool is_made(std::string_view text) {
  const std::size_t target = text.find('>');
  const std::size_t colon = text.find(':');
  if (target == std::string_view::npos || colon == std::string_view::npos || colon < target) {
    return false;
  }
  const texts steps = split(text.substr(colon + 1), ';');
  if (target != 3 || steps.size() != 2) {
    return false;
  }
  std::vector<int> left;  // numbers that may be used still
  for (std::size_t i = 0; i < target; ++i) {
    left.push_back(number_of(text.substr(i, 1)).value_or(-1));
  }
  const auto use = [&](int number) {
    const auto found = std::find(left.begin(), left.end(), number);
    if (found == left.end()) {
      return false;
    }
    left.erase(found);
    return true;
  };
  for (const std::string_view step : steps) {
    const auto o = operation_of(step);
    if (!o || !use(o->left) || !use(o->right)) {
      return false;
    }
    left.push_back(o->result);
  }
  return left.size() == 1 && left.front() == number_of(text.substr(target + 1, colon - target - 1));
}

/// True if an answer has the characters of `given` where that has some, and as many as it.
bool keeps(std::string_view given, std::string_view answer) {
  return std::equal(
      given.begin(), given.end(), answer.begin(), answer.end(), [](char clue, char c) {
        return clue == '_' || clue == c;
      });
}

}  // namespace

bool sudoku_6x6(std::string_view given, std::string_view answer) {
  constexpr std::size_t side = 6, box_rows = 2, box_columns = 3;
  if (given.size() != side * side || !keeps(given, answer)) {
    return false;
  }
  std::array<unsigned, side> rows{}, columns{}, boxes{};  // the digits so far, a bit each
  for (std::size_t p = 0; p < answer.size(); ++p) {
    const char digit = answer[p];
    if (digit < '1' || digit > '6') {
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

bool shortest_paths(std::string_view prompt, std::string_view given, std::string_view answer) {
  graph g;
  for (const std::string_view edge : split(inside(prompt), ',')) {
    if (edge.size() != 2) {
      return false;
    }
    g.near[index(edge[0])].set(index(edge[1]));
    g.near[index(edge[1])].set(index(edge[0]));
  }
  const texts paths = split(answer, ',');
  return keeps(given, answer) && std::all_of(paths.begin(), paths.end(), [&](std::string_view p) {
           return !p.empty() && g.has_path(p) && g.distance(p.front(), p.back()) == p.size() - 1;
         });
}

bool countdown(std::string_view given, std::string_view answer) {
  const texts pieces = split(answer, ',');
  return keeps(given, answer) && std::all_of(pieces.begin(), pieces.end(), is_made);
}

bool accepted_words(std::string_view accepted, std::string_view answer) {
  const texts known = split(accepted, ' '), words = split(answer, ' ');
  return std::equal(
      known.begin(), known.end(), words.begin(), words.end(), [](auto any, auto word) {
        const texts each = split(any, '|');
        return std::find(each.begin(), each.end(), word) != each.end();
      });
}

bool other_order(std::string_view prompt, std::string_view answer) {
  const std::string_view list = inside(prompt);
  return answer != list &&
         std::is_permutation(answer.begin(), answer.end(), list.begin(), list.end());
}

checker find_checker(std::string_view name) {
  if (name == "sudoku_6x6") {
    return [](const problem& p, std::string_view answer) { return sudoku_6x6(p.given, answer); };
  }
  if (name == "shortest_paths") {
    return [](const problem& p, std::string_view answer) {
      return shortest_paths(p.prompt, p.given, answer);
    };
  }
  if (name == "countdown") {
    return [](const problem& p, std::string_view answer) { return countdown(p.given, answer); };
  }
  if (name == "accepted_words") {
    return
        [](const problem& p, std::string_view answer) { return accepted_words(p.answer, answer); };
  }
  if (name == "other_order") {
    return [](const problem& p, std::string_view answer) { return other_order(p.prompt, answer); };
  }
  throw std::invalid_argument(
      "checker must be sudoku_6x6, shortest_paths, countdown, accepted_words or other_order, "
      "got '" +
      std::string(name) + "'");
}

}  // namespace demo
