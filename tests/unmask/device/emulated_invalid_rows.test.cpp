// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rows without a finite logit among the tokens that may be proposed, with emulated kernels: the
// lowest of these, as on the host.

#include <unmask/host/backend.hpp>
#include <unmask/named_policy.hpp>

#include <gtest/gtest.h>

#include "support/invalid_rows.hpp"
#include "unmask/device/emulated_launches.hpp"

namespace unmask::testing::emulated_invalid_rows_test {
namespace {

void expect_lowest(const char* text, const auto& lists, std::uint64_t seed) {
  const named_policy p = read_policy(text);
  CUstream_st stream;
  for (std::uint64_t k = 0; k < 40; ++k) {
    SCOPED_TRACE(k);
    dice d(mixed(seed, k));
    const invalid_row r = random_invalid_row(d, lists);
    const token_id token = decide_one(p, r, on_stream{&stream}).token;
    EXPECT_EQ(token, decide_one(p, r, on_host{}).token);
    if (lowest_of(r, lists) < r.model.vocab) {
      ASSERT_EQ(token, lowest_of(r, lists));
    }
  }
}

TEST(EmulatedInvalidRows, CommitTheLowestTokenThatIsAllowed) {
  expect_lowest("tokens_per_step(1)", [](token_id) { return true; }, 1);
  expect_lowest(
      "tokens_per_step(1) + sampling + min_new_tokens(3) + logit_bias([0], [-inf])",
      [](token_id v) { return v != 2 && v != 0; },
      2);
  expect_lowest(
      "tokens_per_step(1) + allowed_tokens([1, 3, 4, 6])",
      [](token_id v) { return v == 1 || v == 3 || v == 4 || v == 6; },
      3);
}

}  // namespace
}  // namespace unmask::testing::emulated_invalid_rows_test
