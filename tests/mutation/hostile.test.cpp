// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The decodes of unmask_hostile as tests/run.sh has them, a test for five cases, and its recorded
// decisions, a test for fifty.
#include <gtest/gtest.h>

#include <cstdint>

#include "hostile/oracle.hpp"
#include "hostile/recorded.hpp"

namespace unmask::hostile {
namespace {

class hostile_cases : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(hostile_cases, break_no_promise) {
  for (std::uint64_t number = GetParam(); number < GetParam() + 5; ++number) {
    try {
      check(random_scenario(1, number), [](const auto&) {});
    } catch (const refusal&) {
      continue;  // by a rule of composition
    } catch (const violation& v) {
      FAIL() << "case " << number << ": " << v.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(of_seed_1, hostile_cases, ::testing::Range<std::uint64_t>(0, 555, 5));

class recorded_cases : public ::testing::TestWithParam<std::size_t> {};

TEST_P(recorded_cases, decide_as_they_did) {
  const auto lines = read_record(UNMASK_TEST_DATA "/hostile_decisions.txt");
  ASSERT_EQ(lines.size(), 6000U);
  for (std::size_t k = GetParam(); k < GetParam() + 50; ++k) {
    ASSERT_NO_THROW(check_line(lines[k]));
  }
}

INSTANTIATE_TEST_SUITE_P(of_the_first, recorded_cases, ::testing::Range<std::size_t>(0, 6000, 50));

}  // namespace
}  // namespace unmask::hostile
