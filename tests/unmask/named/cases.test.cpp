// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cases of tests/cases on the host. unmask/device runs them on emulated thread blocks.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "support/case_file.hpp"

namespace unmask::testing::cases_test {
namespace {

TEST(cases, are_decoded_as_written) {
  std::size_t count = 0;
  for (const auto& file : case_files(UNMASK_TEST_CASES)) {
    for (const written_case& c : cases_of(file)) {
      for (const std::string& difference : differences(c)) {
        ADD_FAILURE() << difference;
      }
      ++count;
    }
  }
  EXPECT_GT(count, 0U);
}

TEST(cases, belong_to_the_part_in_the_name_of_their_file) {
  for (const auto& file : case_files(UNMASK_TEST_CASES)) {
    const std::string part = file.stem().string();
    for (const written_case& c : cases_of(file)) {
      EXPECT_NE(c.policy.find(part), std::string::npos) << c.where << ": no " << part;
    }
  }
}

// The message of a wrong case.
TEST(cases, tell_file_and_line_of_a_difference) {
  const auto file = std::filesystem::path(::testing::TempDir()) / "wrong.txt";
  std::ofstream(file) << "# a comment\n"
                         "threshold(0.9)\n"
                         "    confidences 0.95 0.6\n"
                         "    commits 0.95 0.6\n"
                         "\n"
                         "threshold(2)\n"
                         "    confidences 0.5\n"
                         "    commits 0.5\n"
                         "threshold(0.9)\n"
                         "    confidences 0.5\n"
                         "    is refused: value\n";
  const std::vector<written_case> all = cases_of(file);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(differences(all[0]),
            std::vector<std::string>{
                "wrong.txt:4: threshold(0.9): expected commits 0.95 0.6, got 0.95 "});
  ASSERT_EQ(differences(all[1]).size(), 1U);
  EXPECT_EQ(differences(all[1])[0].rfind("wrong.txt:6: threshold(2): ", 0), 0U);
  EXPECT_EQ(differences(all[2]),
            std::vector<std::string>{"wrong.txt:9: threshold(0.9): is not refused"});
  std::ofstream(file) << "threshold(0.9)\n    confidences 0.5\n";
  EXPECT_THROW(static_cast<void>(cases_of(file)), std::invalid_argument);
}

}  // namespace
}  // namespace unmask::testing::cases_test
