// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/core/part/schedule.hpp>
#include <unmask/core/plan.hpp>

#include <gtest/gtest.h>

#include <cstdint>

namespace unmask::testing::forwards_test {
namespace {

TEST(blocks_of, counts_the_last_one_too) {
  for (index_t block = 1; block <= 7; ++block) {
    for (index_t answer = 0; answer <= 22; ++answer) {
      std::int64_t blocks = 0;
      for (index_t first = 0; first < answer; first += block) {
        ++blocks;
      }
      for (const index_t prompt : {0, 5}) {
        const sequence_shape g{
            .prompt_length = prompt, .length = prompt + answer, .block_length = block};
        EXPECT_EQ(detail::blocks_of(g), blocks) << answer << " in blocks of " << block;
      }
    }
  }
  // The largest sizes of a sequence do not overflow.
  EXPECT_EQ(detail::blocks_of({.length = 0x7fffffff, .block_length = 0x7fffffff}), 1);
  EXPECT_EQ(detail::blocks_of({.length = 0x7fffffff, .block_length = 1}), 0x7fffffff);
}

TEST(saturated_sum, is_exact_up_to_no_bound) {
  using detail::no_bound;
  EXPECT_EQ(detail::saturated_sum(2, 3), 5);
  EXPECT_EQ(detail::saturated_sum(no_bound - 1, 1), no_bound);
  EXPECT_EQ(detail::saturated_sum(no_bound - 1, 2), no_bound);
  EXPECT_EQ(detail::saturated_sum(no_bound, no_bound), no_bound);
  EXPECT_EQ(detail::saturated_sum(0, no_bound - 1), no_bound - 1);
}

TEST(sequence_report, has_tokens_per_forward_pass) {
  sequence_report r;
  EXPECT_EQ(r.tokens_per_forward(), 0.0);
  r.committed = 3;
  EXPECT_EQ(r.tokens_per_forward(), 0.0);
  r.forwards = 1;
  EXPECT_EQ(r.tokens_per_forward(), 3.0);
  r.forwards = 2;
  EXPECT_EQ(r.tokens_per_forward(), 1.5);
}

}  // namespace
}  // namespace unmask::testing::forwards_test
