// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// <unmask/named_policy.hpp> is all that a policy by name needs.
#include <unmask/named_policy.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace unmask::alone_test {
namespace {

TEST(named_policy, needs_one_header) {
  const named_policy policy = read_policy("tokens_per_step(2)");
  named_session s(policy, {.vocab = 4, .mask_token = 3}, {.length = 2, .window = 2});
  std::vector<token_id> tokens(2);
  s.start(0, policy, tokens, {.length = 2});
  const std::vector<float> logits = {0.0F, 2.0F, 1.0F, 9.0F, 0.0F, 1.0F, 2.0F, 9.0F};
  ASSERT_TRUE(s.next());
  s.supply(host_logits<float>(logits.data(), 2, 4));
  EXPECT_EQ(tokens, (std::vector<token_id>{1, 2}));
}

}  // namespace
}  // namespace unmask::alone_test
