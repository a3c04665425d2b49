// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/core/plan.hpp>
#include <unmask/trace/trace_head.hpp>

#include <gtest/gtest.h>

#include <string_view>

namespace unmask::plan_test {
namespace {

TEST(ending, has_the_name_of_its_enumerator) {
  static_assert(std::string_view(name_of(ending::running)) == "running");
  EXPECT_STREQ(name_of(ending::complete), "complete");
  EXPECT_STREQ(name_of(ending::eos_token), "eos_token");
  EXPECT_STREQ(name_of(ending::stop_tokens), "stop_tokens");
  EXPECT_STREQ(name_of(ending::max_steps), "max_steps");
  EXPECT_STREQ(name_of(ending::cancelled), "cancelled");
  EXPECT_EQ(trace_endings.back(), "cancelled");
}

}  // namespace
}  // namespace unmask::plan_test
