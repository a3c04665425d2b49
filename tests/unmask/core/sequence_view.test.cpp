// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/core/part/sequence_view.hpp>

#include <gtest/gtest.h>

#include <vector>

#include "support/dice.hpp"

namespace unmask::testing::sequence_view_test {
namespace {

TEST(SequenceView, CountsAndFindsMaskedPositionsInAnyRange) {
  dice d(5);
  for (int round = 0; round < 200; ++round) {
    // One byte a position, so that the sanitizers see a read before or behind them.
    const index_t length = d.within(1, 70);
    const double share = d.chance(0.5) ? 0.05 : 0.6;
    std::vector<mark> marks;
    for (index_t p = 0; p < length; ++p) {
      marks.push_back(d.chance(share) ? mark::masked
                      : d.chance(0.5) ? mark::committed
                                      : mark::fixed);
    }
    sequence_view q;
    q.length = length;
    for (index_t offset = 0; offset < 8 && offset < length; ++offset) {  // every alignment
      q.marks = marks.data() + offset;
      for (index_t first = 0; first <= length - offset; ++first) {
        for (index_t last = first; last <= length - offset; ++last) {
          index_t count = 0;
          index_t lowest = last;
          for (index_t p = last - 1; p >= first; --p) {
            count += q.is_masked(p) ? 1 : 0;
            lowest = q.is_masked(p) ? p : lowest;
          }
          ASSERT_EQ(q.masked_in({first, last}), count);
          ASSERT_EQ(q.first_masked_in({first, last}), lowest);
        }
      }
    }
  }
}

TEST(SequenceView, HasOneBlockWhereBlocksAreLongerThanTheAnswer) {
  for (const index_t block_length : {16, 17, 0x7fffffff - 5, 0x7fffffff}) {
    sequence_view q;
    q.prompt_length = 5;
    q.length = 21;
    q.block_length = block_length;
    EXPECT_EQ(q.blocks(), 1);
    EXPECT_EQ(q.block(0), (range{5, 21}));
    EXPECT_EQ(q.block_of(20), 0);
    q.length = 5;
    EXPECT_EQ(q.blocks(), 0);
  }
}

}  // namespace
}  // namespace unmask::testing::sequence_view_test
