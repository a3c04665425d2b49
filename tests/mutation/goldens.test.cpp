// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The lines of unmask_goldens, a test each.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "goldens/lines.hpp"
#include "goldens/rules.hpp"

namespace unmask::goldens {
namespace {

struct checked_line {
  node line;
  rule checks;
};

std::vector<checked_line> checked_lines() {
  std::vector<checked_line> lines;
  std::set<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(golden_file(""))) {
    if (file.path().extension() == ".jsonl") {
      files.insert(file.path().string());
    }
  }
  for (const std::string& file : files) {
    for (const node& line : read_json_lines(file)) {
      for (const rule& r : supported_rules()) {
        if (r.name == line.get<std::string>("rule")) {
          lines.push_back({line, r});
        }
      }
    }
  }
  return lines;
}

class goldens : public testing::TestWithParam<checked_line> {};

TEST_P(goldens, line) {
  const verdict v = GetParam().checks.check(GetParam().line);
  EXPECT_TRUE(v.passed || v.skipped) << v.detail;
}

INSTANTIATE_TEST_SUITE_P(all, goldens, testing::ValuesIn(checked_lines()));

}  // namespace
}  // namespace unmask::goldens
