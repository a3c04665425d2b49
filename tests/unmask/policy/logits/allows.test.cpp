// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tokens that parts track, and that they allow to a row without a finite logit.
#include <unmask/policy/logits/credit.hpp>
#include <unmask/policy/logits/eos.hpp>
#include <unmask/policy/logits/probability.hpp>
#include <unmask/policy/logits/tokens.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace unmask::testing::allows_test {
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

TEST(logit_bias, takes_as_many_biases_as_there_are) {
  logit_bias<3> part;
  const double values[] = {-1.0, 2.0, 5.0};
  logit_bias<3>::take_biases(part, values, 2);
  EXPECT_EQ(part.pairs[1].bias, 2.0F);
  EXPECT_EQ(part.pairs[2].bias, 0.0F);
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

/// The tokens that a part tracks at a position.
template <class State>
std::vector<token_id> tracked(const auto& part, index_t position, const State& its) {
  const place there(position);
  const struct {
    step_info at;
    State state;
  } context{there.at, its};
  std::vector<token_id> tokens(9);
  tracked_list list(tokens.data(), 9);
  part.track(list, context);
  tokens.resize(static_cast<std::size_t>(list.size()));
  return tokens;
}

TEST(tracked, are_the_tokens_that_a_part_was_given) {
  using tokens = std::vector<token_id>;
  const allowed_tokens<3> allowed{.tokens = {2, 4, 6}, .count = 2, .first = 1, .last = 2};
  const probability_of<3> probes{.tokens = {2, 4, 6}, .count = 2, .first = 1, .last = 2};
  for (const index_t position : {3, 4, 5}) {  // the first, second and third of the answer
    SCOPED_TRACE(position);
    const tokens expected = position == 4 ? tokens{2, 4} : tokens{};
    EXPECT_EQ(tracked(allowed, position, no_state{}), expected);
    EXPECT_EQ(tracked(probes, position, no_state{}), expected);
  }
}

TEST(tracked, are_the_tokens_with_credit) {
  trace_credit<3>::position_state state;
  state.slots[0].token = 4;
  state.slots[1].token = 2;
  state.slots[2].token = 6;
  state.size = 2;
  EXPECT_EQ(tracked(trace_credit<3>{}, 3, state), (std::vector<token_id>{2, 4}));
}

}  // namespace
}  // namespace unmask::testing::allows_test
