// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/core/part/tracked_list.hpp>

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "support/dice.hpp"

namespace unmask::testing::tracked_list_test {
namespace {

TEST(tracked_list, is_ascending_and_has_each_token_once) {
  dice d(8);
  for (int round = 0; round < 200; ++round) {
    std::vector<token_id> tokens(12, -7);
    tracked_list list(tokens.data(), 11);
    std::set<token_id> expected;
    for (int k = d.within(0, 30); k > 0; --k) {
      const token_id token = d.within(0, 10);
      list.add(token);
      expected.insert(token);
      ASSERT_EQ(list.size(), static_cast<index_t>(expected.size()));
      ASSERT_EQ(std::vector(tokens.begin(), tokens.begin() + list.size()),
                std::vector(expected.begin(), expected.end()));
    }
    EXPECT_EQ(tokens.back(), -7);
  }
}

}  // namespace
}  // namespace unmask::testing::tracked_list_test
