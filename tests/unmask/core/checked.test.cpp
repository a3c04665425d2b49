// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Preconditions are checked with UNMASK_CHECKED, in a release build, too.
#if !defined(NDEBUG)
#  define NDEBUG
#endif
#if !defined(UNMASK_CHECKED)
#  define UNMASK_CHECKED
#endif
#include <unmask/core/config.hpp>

#include <gtest/gtest.h>

namespace unmask::checked_test {
namespace {

constexpr int half(int x) {
  UNMASK_EXPECTS(x % 2 == 0);
  return x / 2;
}
static_assert(half(4) == 2, "a check that holds may stand in a constant expression");

TEST(checked, a_broken_precondition_stops_the_program) {
  volatile int odd = 3;
  EXPECT_DEATH(static_cast<void>(half(odd)), "checked.test.cpp:[0-9]+: expected x % 2 == 0");
}

}  // namespace
}  // namespace unmask::checked_test
