// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints the words of policies as text, from the tables that the reader uses, as a libFuzzer
// dictionary.

#include <unmask/named/read_policy.hpp>

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>

int main() {
  using namespace unmask;
  std::set<std::string> words = {
      "any_of", "all_of", "true", "false", " + ", "=", "(", ")", "[", "]"};
  const auto add_words = [&](std::string_view separated) {
    for (std::size_t at = 0; at <= separated.size();) {
      const std::size_t end = std::min(separated.find('|', at), separated.size());
      words.insert(std::string(separated.substr(at, end - at)));
      at = end + 1;
    }
  };
  for (const known_part& part : known_parts()) {
    words.insert(std::string(part.name));
    for (const part_argument& a : part.arguments) {
      words.insert(std::string(a.name) + "=");
      add_words(a.words);
    }
  }
  for (const known_method& method : known_methods()) {
    words.insert(std::string(method.name));
  }
  for (const char* number : {"0",
                             "1",
                             "-1",
                             "0.5",
                             "1e30",
                             "1e-45",
                             "2147483647",
                             "2147483648",
                             "inf",
                             "nan",
                             "1e999"}) {
    words.insert(number);
  }
  words.erase("");
  for (const std::string& word : words) {
    std::printf("\"%s\"\n", word.c_str());
  }
}
