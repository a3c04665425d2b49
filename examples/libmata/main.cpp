// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A regular expression as a file that unmask::constraint::read() reads, without Python.
//
// usage: expression_table [--states N] EXPRESSION FILE
//
// Status: 0; 1 for an expression that is malformed, of no string, or of too many states; 2 for
// other arguments. Limits of time and memory are the caller's: `ulimit -t 10 -v 2000000`.

#include <charconv>
#include <cstdio>
#include <exception>
#include <string>
#include <system_error>
#include <vector>

#include "expression.hpp"

int main(int count, char** arguments) {
  std::vector<std::string> words(arguments + 1, arguments + count);
  std::size_t most_states = std::size_t{1} << 16U;
  if (words.size() == 4 && words[0] == "--states") {
    const char* const past = words[1].data() + words[1].size();
    const auto [end, error] = std::from_chars(words[1].data(), past, most_states);
    if (error != std::errc() || end != past || most_states == 0) {
      std::fprintf(stderr, "--states: %s is no number of states\n", words[1].c_str());
      return 2;
    }
    words.erase(words.begin(), words.begin() + 2);
  }
  if (words.size() != 2) {
    std::fprintf(stderr, "usage: expression_table [--states N] EXPRESSION FILE\n");
    return 2;
  }
  try {
    const unmask::byte_table table = libmata::table_of(words[0], most_states);
    unmask::write_byte_table(words[1], table.view());
    std::printf("%s: %zu states\n", words[1].c_str(), table.accepting.size());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
