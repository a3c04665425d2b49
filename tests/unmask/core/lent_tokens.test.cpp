// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/core/lent_tokens.hpp>

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace unmask::testing::lent_tokens_test {
namespace {

TEST(lent_tokens, refuses_memory_of_another_slot_that_runs) {
  const token_id tokens[30] = {};
  lent_tokens lent(3);
  lent.record(1, tokens + 10, 10);
  const auto refuses = [&](index_t slot, index_t first, index_t count, bool runs = true) {
    try {
      lent.check(slot, tokens + first, count, [runs](std::size_t) { return runs; });
    } catch (const std::invalid_argument& e) {
      EXPECT_NE(std::string(e.what()).find("those of slot 1"), std::string::npos) << e.what();
      return true;
    }
    return false;
  };
  EXPECT_TRUE(refuses(0, 0, 11));
  EXPECT_FALSE(refuses(0, 0, 10));  // they touch
  EXPECT_TRUE(refuses(2, 19, 5));
  EXPECT_FALSE(refuses(2, 20, 5));
  EXPECT_TRUE(refuses(0, 12, 3));
  EXPECT_TRUE(refuses(0, 0, 30));
  EXPECT_FALSE(refuses(1, 10, 10)) << "the slot itself";
  EXPECT_FALSE(refuses(0, 12, 3, false)) << "its sequence has ended";
}

TEST(lent_tokens, knows_the_memory_of_every_slot) {
  const token_id tokens[30] = {};
  for (const index_t lender : {0, 1, 2}) {
    lent_tokens lent(3);
    lent.record(lender, tokens + 10, 10);
    for (const index_t slot : {0, 1, 2}) {
      int asked = 0;
      lent.check(slot, tokens, 30, [&](std::size_t other) {
        EXPECT_EQ(other, static_cast<std::size_t>(lender));
        ++asked;
        return false;
      });
      EXPECT_EQ(asked, slot == lender ? 0 : 1);
    }
    lent.record(lender, tokens, 5);  // the last start counts
    EXPECT_NO_THROW(
        lent.check((lender + 1) % 3, tokens + 10, 10, [](std::size_t) { return true; }));
  }
}

}  // namespace
}  // namespace unmask::testing::lent_tokens_test
