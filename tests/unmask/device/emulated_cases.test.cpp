// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cases of tests/cases on a stream with emulated kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "support/case_file.hpp"
#include "unmask/device/emulated_launches.hpp"

namespace unmask::testing::emulated_cases_test {
namespace {

TEST(emulated_cases, are_decoded_as_written) {
  CUstream_st stream;
  for (const auto& file : case_files(UNMASK_TEST_CASES)) {
    for (const written_case& c : cases_of(file)) {
      const bool has_layers = std::ranges::any_of(
          c.input, [](const std::string& input) { return input.ends_with(" layers"); });
      if (has_layers && c.refused.empty()) {
        continue;  // its engine keeps states in the host's memory
      }
      for (const std::string& difference : differences(c, on_stream{&stream})) {
        ADD_FAILURE() << difference;
      }
    }
  }
}

}  // namespace
}  // namespace unmask::testing::emulated_cases_test
