// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/c_constraints.h>

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "support/c_calls.hpp"
#include "support/dice.hpp"

namespace unmask::testing::c_constraints_test {
namespace {

constexpr std::int32_t mask = 2, eos = 3, vocab = 4;

unmask_options options_of(std::int32_t length) {
  unmask_options o = UNMASK_OPTIONS_INIT;
  o.vocab = vocab;
  o.mask_token = mask;
  o.eos_token = eos;
  o.length = length;
  o.window = length;
  o.trace = 1;
  return o;
}

unmask_vocabulary* words() {
  const unmask_token_bytes tokens[] = {{"a", 1}, {"b", 1}, {nullptr, 0}, {"$", 1}};
  const unmask_options o = options_of(1);
  unmask_vocabulary* v = nullptr;
  EXPECT_EQ(unmask_vocabulary_new(tokens, vocab, &o, nullptr, 0, &v), UNMASK_OK)
      << unmask_last_error();
  return v;
}

// a*b: the letter b ends a string.
struct table {
  std::vector<std::uint32_t> next = std::vector<std::uint32_t>(2 * 256, UINT32_MAX);
  std::vector<std::uint8_t> accepting{0, 1};

  table() {
    next['a'] = 0;
    next['b'] = 1;
  }
  [[nodiscard]] unmask_byte_automaton view() const {
    unmask_byte_automaton a = UNMASK_BYTE_AUTOMATON_INIT;
    a.states = 2;
    a.next = next.data();
    a.accepting = accepting.data();
    return a;
  }
};

unmask_constraint* constraint_of(const table& t) {
  unmask_vocabulary* const v = words();
  const unmask_byte_automaton a = t.view();
  unmask_constraint* c = nullptr;
  EXPECT_EQ(unmask_constraint_new(&a, v, nullptr, &c), UNMASK_OK) << unmask_last_error();
  unmask_vocabulary_free(v);
  return c;
}

TEST(c_constraints, decode_strings_of_the_language) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    dice d(seed);
    const std::int32_t length = d.within(1, 6);
    unmask_constraint* const made_here = constraint_of(table());
    unmask_constraint* c = nullptr;
    ASSERT_EQ(unmask_constraint_another(made_here, &c), UNMASK_OK);
    unmask_constraint_free(made_here);
    const session_pointer s = made("threshold(0.4)", options_of(length));
    unmask_constrained_field field = {c, 0, INT32_MAX, 0, 0, 0, 0};
    unmask_sequence q = UNMASK_SEQUENCE_INIT;
    q.length = length;
    q.block_length = length;
    q.constraints = &field;
    q.constraint_count = 1;
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(length), 0);
    ASSERT_EQ(unmask_start(s.get(), 0, tokens.data(), length, &q), UNMASK_OK)
        << unmask_last_error();
    while (true) {
      unmask_request request = UNMASK_REQUEST_INIT;
      ASSERT_EQ(unmask_next(s.get(), &request), UNMASK_OK);
      if (request.count == 0) {
        break;
      }
      std::vector<float> z(static_cast<std::size_t>(request.rows) * vocab);
      for (float& x : z) {
        x = d.real(-3, 3);
      }
      const unmask_logits rows = c_logits(z, vocab);
      ASSERT_EQ(unmask_supply(s.get(), &rows), UNMASK_OK);
    }
    std::int32_t accepts = 0;
    ASSERT_EQ(unmask_constraint_accepts(c, tokens.data(), length, &accepts), UNMASK_OK);
    EXPECT_EQ(accepts, 1);
    std::string text;
    for (const std::int32_t v : tokens) {
      text += "ab_$"[v];
    }
    const std::size_t b = text.find('b');
    ASSERT_NE(b, text.npos) << text;
    EXPECT_EQ(text.substr(0, b), std::string(b, 'a'));
    EXPECT_EQ(text.substr(b + 1), std::string(text.size() - b - 1, '$'));
    unmask_report report = UNMASK_REPORT_INIT;
    ASSERT_EQ(unmask_get_report(s.get(), 0, &report), UNMASK_OK);
    EXPECT_EQ(report.constraint_met, 1);
    EXPECT_EQ(report.filled, length == 1 ? 1 : report.filled);
    std::uint32_t state = 0;
    EXPECT_EQ(unmask_constraint_state(s.get(), 0, 0, &state), UNMASK_OK);
    unmask_constraint_free(c);
  }
}

TEST(c_constraints, keep_the_number_of_passes_where_refused_candidates_are_read_again) {
  constexpr std::int32_t length = 6;
  int more = 0;
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    SCOPED_TRACE(seed);
    dice d(seed);
    unmask_constraint* const c = constraint_of(table());
    const session_pointer s = made("steps_per_block(2)", options_of(length));
    const bool again = seed % 2 == 1;
    unmask_constrained_field field = {c, 0, INT32_MAX, 0, 0, 1, again ? 1 : 0};
    unmask_sequence q = UNMASK_SEQUENCE_INIT;
    q.length = length;
    q.block_length = length;
    q.constraints = &field;
    q.constraint_count = 1;
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(length), 0);
    ASSERT_EQ(unmask_start(s.get(), 0, tokens.data(), length, &q), UNMASK_OK)
        << unmask_last_error();
    unmask_constraint_free(c);
    for (unmask_request request = UNMASK_REQUEST_INIT;;) {
      ASSERT_EQ(unmask_next(s.get(), &request), UNMASK_OK);
      if (request.count == 0) {
        break;
      }
      std::vector<float> z(static_cast<std::size_t>(request.rows) * vocab);
      for (float& x : z) {
        x = d.real(-3, 3);
      }
      const unmask_logits rows = c_logits(z, vocab);
      ASSERT_EQ(unmask_supply(s.get(), &rows), UNMASK_OK);
    }
    unmask_report report = UNMASK_REPORT_INIT;
    ASSERT_EQ(unmask_get_report(s.get(), 0, &report), UNMASK_OK);
    EXPECT_EQ(report.constraint_met, 1);
    EXPECT_TRUE(!again || report.forwards == 2) << report.forwards;
    more += report.forwards > 2 ? 1 : 0;
  }
  EXPECT_GT(more, 5);
}

TEST(c_constraints, are_made_of_transitions) {
  unmask_vocabulary* const v = words();
  const unmask_token_transition list[] = {{0, 0, 0}, {0, 1, 1}};
  const std::uint8_t accepting[] = {0, 1};
  unmask_constraint* c = nullptr;
  ASSERT_EQ(unmask_constraint_from_transitions(list, 2, 2, 0, accepting, v, nullptr, &c), UNMASK_OK)
      << unmask_last_error();
  EXPECT_EQ(unmask_constraint_shortest(c), 1);
  const std::int32_t good[] = {0, 0, 1, eos};
  const std::int32_t bad[] = {0, eos};
  std::int32_t accepts = 0;
  ASSERT_EQ(unmask_constraint_accepts(c, good, 4, &accepts), UNMASK_OK);
  EXPECT_EQ(accepts, 1);
  ASSERT_EQ(unmask_constraint_accepts(c, bad, 2, &accepts), UNMASK_OK);
  EXPECT_EQ(accepts, 0);
  unmask_constraint_free(c);
  unmask_vocabulary_free(v);
}

TEST(c_constraints, refuse_with_the_reason) {
  unmask_vocabulary* const v = words();
  unmask_constraint* c = nullptr;
  EXPECT_EQ(unmask_constraint_new(nullptr, v, nullptr, &c), UNMASK_INVALID_ARGUMENT);
  EXPECT_STREQ(unmask_last_error(), "automaton must be a pointer, got null");
  unmask_constraint_limits limits = UNMASK_CONSTRAINT_LIMITS_INIT;
  limits.states = 2;
  const table t;
  const unmask_byte_automaton a = t.view();
  EXPECT_EQ(unmask_constraint_new(&a, v, &limits, &c), UNMASK_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(unmask_last_error(), "unmask_constraint_limits::states"), nullptr)
      << unmask_last_error();
  unmask_byte_automaton later = a;
  later.reserved = 7;
  EXPECT_EQ(unmask_constraint_new(&later, v, nullptr, &c), UNMASK_INVALID_ARGUMENT);
  EXPECT_STREQ(unmask_last_error(), "automaton->reserved must be 0, got 7");
  EXPECT_EQ(c, nullptr);
  EXPECT_EQ(unmask_constraint_read("/no/such.dfa", v, nullptr, &c), UNMASK_FAILED);
  EXPECT_STREQ(unmask_last_error(), "/no/such.dfa: cannot be read");
  const unmask_options o = options_of(1);
  const unmask_token_bytes one = {"a", 1};
  unmask_vocabulary* few = nullptr;
  EXPECT_EQ(unmask_vocabulary_new(&one, 1, &o, nullptr, 0, &few), UNMASK_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(unmask_last_error(), "token_bytes has 1 entries, the model 4"), nullptr);
  unmask_vocabulary_free(v);
  unmask_vocabulary_free(nullptr);
  unmask_constraint_free(nullptr);
  const session_pointer s = made("threshold(0.4)", options_of(2));
  unmask_constrained_field field = {nullptr, 0, INT32_MAX, 0, 0, 0, 0};
  unmask_sequence q = UNMASK_SEQUENCE_INIT;
  q.length = 2;
  q.constraints = &field;
  q.constraint_count = 1;
  std::int32_t tokens[] = {0, 1};
  EXPECT_EQ(unmask_start(s.get(), 0, tokens, 2, &q), UNMASK_INVALID_ARGUMENT);
  EXPECT_STREQ(unmask_last_error(), "constraints->language must be a constraint, got null");
  std::uint32_t state = 0;
  EXPECT_EQ(unmask_constraint_state(s.get(), 0, 0, &state), UNMASK_OUT_OF_ORDER);
}

}  // namespace
}  // namespace unmask::testing::c_constraints_test
