// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tokens that parts allow to a row without a finite logit.
#include <unmask/policy/logits/eos.hpp>
#include <unmask/policy/logits/tokens.hpp>

#include <gtest/gtest.h>

namespace unmask::testing {
namespace {

constexpr float ban = -__builtin_inff();

/// A position behind a prompt of three tokens, in a sequence whose EOS token is 7.
struct place {
  sequence_view view;
  step_info at;
  explicit place(index_t position) {
    view.prompt_length = 3;
    view.eos_token = 7;
    at.position = position;
    at.view = &view;
  }
  place(const place&) = delete;
  place& operator=(const place&) = delete;
};

TEST(min_new_tokens, allows_no_end_at_its_first_positions) {
  const min_new_tokens part{.tokens = 2, .also = 5};
  const place last_held(4);
  EXPECT_FALSE(part.allows(7, last_held.at));
  EXPECT_FALSE(part.allows(5, last_held.at));
  EXPECT_TRUE(part.allows(6, last_held.at));
  const place first_free(5);
  EXPECT_TRUE(part.allows(7, first_free.at));
  EXPECT_TRUE(part.allows(5, first_free.at));
}

TEST(logit_bias, allows_all_but_its_banned_tokens) {
  const logit_bias<3> part{{{1, ban}, {2, -5.0F}, {4, ban}}};
  const place at(3);
  EXPECT_TRUE(part.allows(0, at.at));
  EXPECT_FALSE(part.allows(1, at.at));
  EXPECT_TRUE(part.allows(2, at.at));
  EXPECT_TRUE(part.allows(3, at.at));
  EXPECT_FALSE(part.allows(4, at.at));
}

TEST(allowed_tokens, allows_the_tokens_of_its_list) {
  const allowed_tokens<3> part{.tokens = {2, 4, 6}, .count = 2, .first = 1, .last = 2};
  const place inside(4);
  EXPECT_TRUE(part.allows(2, inside.at));
  EXPECT_TRUE(part.allows(4, inside.at));
  EXPECT_FALSE(part.allows(6, inside.at)) << "behind the count";
  EXPECT_FALSE(part.allows(3, inside.at));
  const place before(3);
  EXPECT_TRUE(part.allows(3, before.at));
  const place behind(5);
  EXPECT_TRUE(part.allows(3, behind.at));
}

}  // namespace
}  // namespace unmask::testing
