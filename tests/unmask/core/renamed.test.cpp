// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/text/renamed.hpp>

#include <gtest/gtest.h>

#include <string>

namespace unmask::testing::renamed_test {
namespace {

std::string in_c(const std::string& text) {
  static constexpr detail::name_elsewhere names[] = {
      {"shape::", "unmask_shape."}, {"slot", "slots"}, {"supply()", "unmask_supply"}, {"gone", ""}};
  return detail::renamed(text, names);
}

TEST(renamed, has_every_name_of_the_other_interface) {
  EXPECT_EQ(in_c("shape::length must be 3"), "unmask_shape.length must be 3");  // at the front
  EXPECT_EQ(in_c("call supply()"), "call unmask_supply");                       // at the end
  EXPECT_EQ(in_c("supply()"), "unmask_supply");
  EXPECT_EQ(in_c("supply() and supply() of shape::end"),
            "unmask_supply and unmask_supply of unmask_shape.end");
  EXPECT_EQ(in_c("slotslot, slot"), "slotsslots, slots");  // each once, though the new one has it
  EXPECT_EQ(in_c("gonegone with the wind"), " with the wind");
}

TEST(renamed, leaves_what_has_no_other_name) {
  for (const char* text : {"", "supply", "a logit is not a number"}) {
    EXPECT_EQ(in_c(text), text);
  }
  EXPECT_EQ(detail::renamed("shape::length", {}), "shape::length");
}

}  // namespace
}  // namespace unmask::testing::renamed_test
