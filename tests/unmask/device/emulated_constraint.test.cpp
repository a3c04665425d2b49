// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sessions with constraints on a stream, with emulated kernels, beside sessions on the host. One
// policy is composed in C++, the others are by name.
#include <unmask/named_policy.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "support/constraints_beside.hpp"
#include "unmask/device/emulated_launches.hpp"
#include "unmask/device/policies.hpp"

namespace unmask::testing::emulated_constraint_test {
namespace {

TEST(emulated_constraint, threshold_equals_the_host) {
  const constraints_beside n = decode_beside_host(read_policy("threshold(0.2)"), 0, 600);
  EXPECT_GT(n.refused, 5);
  EXPECT_GT(n.filled, 100);
}

TEST(emulated_constraint, what_is_left_masked_equals_the_host) {
  static_cast<void>(
      decode_beside_host(read_policy("tokens_per_step(1) + max_steps(2)"), 5000, 150));
}

TEST(emulated_constraint, ends_by_an_eos_token_equal_the_host) {
  static_cast<void>(decode_beside_host(read_policy("tokens_per_step(1) + stop_at_eos"), 6000, 300));
}

TEST(emulated_constraint, drawn_tokens_equal_the_host) {
  const constraints_beside n =
      decode_beside_host(read_policy("tokens_per_step(3) + sampling(1)"), 1000, 400);
  EXPECT_GT(n.refused, 3);
}

TEST(emulated_constraint, edits_equal_the_host) {
  static_cast<void>(decode_beside_host(constrained, 2000, 100));
}

TEST(emulated_constraint, remasked_tokens_equal_the_host) {
  // So slow that positions of which the constraint leaves one token are read again, and stay.
  const constraints_beside n =
      decode_beside_host(read_policy("tokens_per_step + remask_current_below(0.9, 8)"), 3000, 300);
  EXPECT_GT(n.rewritten, 100);
  EXPECT_GT(n.refused, 5);
}

TEST(emulated_constraint, what_a_device_does_not_do_is_refused) {
  dice d(1);
  std::optional<constraint> c;
  language l;
  while (!c) {
    l = random_language(d);
    c = constraint_of(l, {.bytes = 1 << 18});
  }
  CUstream_st stream;
  session<std::remove_const_t<decltype(constrained)>, on_stream> s(
      l.model, {.length = 4, .window = 4}, on_stream{&stream});
  std::vector<token_id> tokens(4, 0);
  const constrained_field again{.language = &*c, .tokens_after = any_number, .read_again = true};
  EXPECT_THROW(
      s.start(0, constrained, {tokens.data(), 4}, {.length = 4}, {.constraints = {&again, 1}}),
      std::invalid_argument);
  EXPECT_THROW(s.start(0, constrained, {tokens.data(), 4}, {.length = 4}, {.soft_tokens = 2}),
               std::invalid_argument);
  EXPECT_EQ(tokens, std::vector<token_id>(4, 0));
  EXPECT_TRUE(s.soft_tokens(0).empty());
  EXPECT_THROW(static_cast<void>(s.constraint_state(0)), std::logic_error);
}

// The sets at both ends of a field belong to no position: a step that looked at the position before
// the first would read and write what lies before the arrays.
TEST(emulated_constraint, a_field_has_no_position_before_its_first) {
  language l;
  l.words = {"a", "b", "", ""};
  l.model = {.vocab = 4, .mask_token = 2, .eos_token = 3};
  constexpr std::uint32_t length = 15;  // its rows of predecessors are 16 words: without padding
  l.bytes = {std::vector<std::uint32_t>((length + 1) * 256, dead_state), {}, 0};
  for (std::uint32_t q = 0; q < length; ++q) {
    l.bytes.next[256 * q + 'a'] = l.bytes.next[256 * q + 'b'] = q + 1;
  }
  l.bytes.accepting.assign(length + 1, 0);
  l.bytes.accepting[length] = 1;
  std::optional<constraint> c = constraint_of(l, {.bytes = 1 << 18});
  ASSERT_TRUE(c);
  ASSERT_EQ(c->states(), 17U);
  CUstream_st stream;
  const named_policy p = read_policy("tokens_per_step(1)");
  const session_capacity capacity{.length = 17, .window = 17};
  named_session host(p, l.model, capacity);
  session<named_policy, on_stream> device(p, l.model, capacity, on_stream{&stream});
  const constrained_field field{.language = &*c};
  std::vector<token_id> expected(17, 0);
  std::vector<token_id> tokens(17, 0);
  host.start(0, {expected.data(), 17}, {.length = 17}, {.constraints = {&field, 1}});
  device.start(0, {tokens.data(), 17}, {.length = 17}, {.constraints = {&field, 1}});
  EXPECT_EQ(device.report().filled, 2);
  EXPECT_EQ(host.report().filled, 2);
  EXPECT_EQ(tokens, expected);
}

TEST(emulated_constraint, excluded_tokens_equal_the_host) {
  static_cast<void>(
      decode_beside_host(read_policy("threshold(0.3) + min_new_tokens(2)"), 4000, 100));
}

}  // namespace
}  // namespace unmask::testing::emulated_constraint_test
