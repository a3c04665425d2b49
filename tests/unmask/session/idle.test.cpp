// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/named/read_policy.hpp>
#include <unmask/named_policy.hpp>

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <vector>

namespace unmask::testing::idle_test {
namespace {

// Memory of a session by name that was made without a policy comes with the policies.
TEST(idle, slots_without_a_policy_have_no_memory) {
  const model_info model{.vocab = 8, .mask_token = 7};
  const session_capacity capacity{.sequences = 2, .length = 4, .window = 4};
  const named_policy policy = read_policy("tokens_per_step(1)");
  const named_session whole(policy, model, capacity);
  named_session s(model, capacity);
  EXPECT_EQ(s.bytes(), 0U);
  std::vector<token_id> tokens(4, 0);
  std::vector<token_id> others(4, 0);
  s.start(0, policy, tokens, {.length = 4});
  EXPECT_GT(s.bytes(), 0U);
  EXPECT_LT(s.bytes(), whole.bytes());
  s.start(1, policy, others, {.length = 4});
  EXPECT_EQ(s.bytes(), whole.bytes());
  s.start(1, policy, others, {.length = 4});
  EXPECT_EQ(s.bytes(), whole.bytes());
}

TEST(idle, is_a_slot_that_was_never_started) {
  named_session s({.vocab = 8, .mask_token = 7}, {.sequences = 2, .length = 4, .window = 4});
  EXPECT_EQ(s.report(0).end, ending::idle);
  EXPECT_EQ(s.report(1).end, ending::idle);
  EXPECT_STREQ(name_of(s.report(1).end), "idle");
  EXPECT_FALSE(s.planned(0).active());
  EXPECT_TRUE(s.finished());
  s.cancel(1);
  EXPECT_EQ(s.report(1).end, ending::idle) << "there is nothing to cancel";
  std::vector<token_id> tokens(4, 0);
  s.start(0, read_policy("tokens_per_step(1)"), tokens, {.length = 4});
  EXPECT_EQ(s.report(0).end, ending::running);
  EXPECT_EQ(s.report(1).end, ending::idle);
  EXPECT_FALSE(s.next(std::span<const index_t>()));
  EXPECT_FALSE(s.finished()) << "next() of no slots says nothing of the others";
  EXPECT_FALSE(s.next(std::array{index_t(1)})) << "the idle one";
  EXPECT_TRUE(s.next());
  s.abandon();
  s.cancel(0);
  EXPECT_EQ(s.report(0).end, ending::cancelled);
  EXPECT_EQ(s.report(0).answer_end, 0);
}

}  // namespace
}  // namespace unmask::testing::idle_test
