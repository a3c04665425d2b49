// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "my_parts.hpp"

#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace my_parts_test {
namespace {

static_assert(unmask::commit_rule<next_to_known> && unmask::step_reducing<next_to_known>);

// Position 4 is given; so at first 1 and 5 are next to a known token, and the rows of 5 are
// clearer. Position 3, the clearest of all, waits for position 2.
TEST(my_parts, commits_the_clearest_position_right_of_a_known_token) {
  constexpr int vocab = 4, mask = 3, length = 7;
  constexpr float clear[length] = {0, 2, 1, 9, 0, 4, 3};
  const std::vector<std::uint8_t> editable = {0, 1, 1, 1, 0, 1, 1};
  std::vector<int> tokens = {0, mask, mask, mask, 0, mask, mask};
  constexpr unmask::policy policy{unmask::by_confidence{}, next_to_known{}};
  unmask::session<unmask::policy<unmask::by_confidence, next_to_known>> session(
      {.vocab = vocab, .mask_token = mask}, {.length = length, .window = length});
  session.start(0, policy, tokens, {.prompt_length = 1, .length = length}, {.editable = editable});
  std::vector<int> order;
  while (const auto request = session.next()) {
    std::vector<float> logits;
    for (int p = request->segments[0].rows.first; p < request->segments[0].rows.last; ++p) {
      logits.insert(logits.end(), {0, clear[p], 0, 0});
    }
    session.supply(unmask::host_logits<float>(logits.data(), request->rows, vocab));
    for (const unmask::commit_entry& c : session.committed(0)) {
      order.push_back(c.position);
    }
  }
  EXPECT_EQ(order, (std::vector<int>{5, 6, 1, 2, 3}));
}

}  // namespace
}  // namespace my_parts_test
