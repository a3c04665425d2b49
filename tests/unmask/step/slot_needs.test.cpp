// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/step/slot_arrays.hpp>

#include <gtest/gtest.h>

namespace unmask::step::slot_needs_test {
namespace {

// A session of several policies has the memory of each.
TEST(slot_needs, of_two_policies_are_those_of_both) {
  const slot_needs each[] = {{.branches = 3},
                             {.drafts = true},
                             {.beams = true},
                             {.compares = true},
                             {.anchors = true},
                             {.layered = true},
                             {.moves = true},
                             {.reconsiders = true},
                             {.tracked_capacity = 4},
                             {.probes = 5}};
  slot_needs all;
  for (const slot_needs& one : each) {
    EXPECT_EQ(one.joined({}), one);
    EXPECT_EQ(slot_needs{}.joined(one), one);
    EXPECT_EQ(one.joined(one), one);
    all = all.joined(one);
  }
  EXPECT_EQ(all,
            (slot_needs{.branches = 3,
                        .drafts = true,
                        .beams = true,
                        .compares = true,
                        .anchors = true,
                        .layered = true,
                        .moves = true,
                        .reconsiders = true,
                        .tracked_capacity = 4,
                        .probes = 5}));
}

}  // namespace
}  // namespace unmask::step::slot_needs_test
