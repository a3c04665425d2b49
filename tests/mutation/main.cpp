// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutants.hpp>

/// Runs the tests. With UNMASK_REACHED=FILE in the environment it writes a line for each test that
/// passed: its name, milliseconds, and the numbers of the mutants that it evaluates.
namespace {

class reach_listener : public testing::EmptyTestEventListener {
 public:
  explicit reach_listener(const char* path)
      : file_(path) {}

  void OnTestStart(const testing::TestInfo&) override {
    std::memset(mutants::reached, 0, sizeof(mutants::reached));
  }
  void OnTestEnd(const testing::TestInfo& test) override {
    if (!test.result()->Passed()) {
      return;
    }
    file_ << test.test_suite_name() << '.' << test.name() << ' ' << test.result()->elapsed_time();
    for (std::size_t n = 0; n < sizeof(mutants::reached); ++n) {
      if (mutants::reached[n] != 0) {
        file_ << ' ' << n;
      }
    }
    file_ << '\n';
  }

 private:
  std::ofstream file_;
};

}  // namespace

int main(int count, char** arguments) {
  testing::InitGoogleTest(&count, arguments);
  if (const char* const path = std::getenv("UNMASK_REACHED")) {
    testing::UnitTest::GetInstance()->listeners().Append(new reach_listener(path));
  }
  return RUN_ALL_TESTS();
}
