// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/core/thread_group.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace unmask::testing::thread_group_test {
namespace {

/// The second of four lanes, alone.
struct second_of_four : serial {
  [[nodiscard]] index_t lane() const { return 1; }
  [[nodiscard]] index_t lanes() const { return 4; }
};
static_assert(deciding_group<second_of_four>);

TEST(thread_group, tells_a_lane_which_of_its_rounds_have_work) {
  for (index_t count = 0; count < 12; ++count) {
    SCOPED_TRACE(count);
    std::vector<index_t> expected;  // the index, or -1 for none
    for (index_t first = 0; first < count; first += 4) {
      expected.push_back(first + 1 < count ? first + 1 : -1);
    }
    std::vector<index_t> each;
    for_each_in_rounds(second_of_four{}, count, [&](index_t i, bool is_there) {
      each.push_back(is_there ? i : -1);
    });
    EXPECT_EQ(each, expected);
    std::vector<index_t> all;
    while_in_rounds(second_of_four{}, count, [&](index_t i, bool is_there) {
      all.push_back(is_there ? i : -1);
      return true;
    });
    EXPECT_EQ(all, expected);
  }
}

}  // namespace
}  // namespace unmask::testing::thread_group_test
