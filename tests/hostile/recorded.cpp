// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "hostile/recorded.hpp"

#include <cstdio>
#include <fstream>
#include <stdexcept>

namespace unmask::hostile {

namespace {

std::string case_hash(const scenario& s) {
  std::uint64_t sum = 0;
  for (const char c : description(s)) {
    sum = testing::mixed(sum, static_cast<std::uint64_t>(static_cast<unsigned char>(c)));
  }
  char text[8];
  std::snprintf(text, sizeof text, "%04x", static_cast<unsigned>(sum & 0xffffU));
  return text;
}

}  // namespace

scenario recorded_case(std::uint64_t number) {
  return random_scenario(1,
                         number,
                         number % 2 == 0 ? case_size::any : case_size::small,
                         number < first_of_newer ? drawn_parts::recorded : drawn_parts::newer);
}

std::string recorded_line(std::uint64_t number) {
  const scenario s = recorded_case(number);
  const std::string line = std::to_string(number) + ' ' + case_hash(s) + ' ';
  try {
    char text[24];
    std::snprintf(
        text, sizeof text, "%016llx", static_cast<unsigned long long>(digest(decode(s, {}))));
    return line + text;
  } catch (const refusal&) {
    return line + "refused";
  }
}

std::vector<std::string> read_record(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.front() != '#') {
      lines.push_back(line);
    }
  }
  if (lines.empty()) {
    throw std::runtime_error("no record of decisions in " + path);
  }
  return lines;
}

void check_line(const std::string& line) {
  const std::string now = recorded_line(std::stoull(line));
  if (now != line) {
    const bool is_other = now.substr(0, now.rfind(' ')) != line.substr(0, line.rfind(' '));
    throw violation(is_other ? "a case as recorded" : "decisions as recorded",
                    "\"" + line + "\" is now \"" + now + "\"");
  }
}

}  // namespace unmask::hostile
