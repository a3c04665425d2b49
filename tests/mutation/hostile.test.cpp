// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The decodes of unmask_hostile as tests/run.sh has them, a test for five cases.
#include <gtest/gtest.h>

#include <cstdint>

#include "hostile/oracle.hpp"

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

}  // namespace
}  // namespace unmask::hostile
