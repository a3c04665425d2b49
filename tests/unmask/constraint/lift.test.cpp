// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/constraint.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/dice.hpp"
#include "support/languages.hpp"

namespace unmask::testing::lift_test {
namespace {

constexpr constraint_limits small{.bytes = 1 << 16};

std::string refusal(const auto& work) {
  try {
    work();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

// The fewest tokens of a string, by trying all; -1 if there is none of up to six.
int shortest_of(const language& l) {
  for (int n = 0; n <= 6; ++n) {
    bool any = false;
    l.for_each_string(n, [&](std::span<const token_id> tokens) {
      const bool ends =
          std::any_of(tokens.begin(), tokens.end(), [&](token_id v) { return l.is_eos(v); });
      any = any || (!ends && l.has(tokens));
    });
    if (any) {
      return n;
    }
  }
  return -1;
}

TEST(lift, accepts_the_strings_whose_bytes_the_automaton_accepts) {
  int languages = 0;
  std::size_t in = 0;
  std::size_t out = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    dice d(seed);
    const language l = random_language(d, d.within(3, 6));
    const std::optional<constraint> c = constraint_of(l, small);
    const int shortest = shortest_of(l);
    if (!c) {
      EXPECT_EQ(shortest, -1);
      continue;
    }
    ++languages;
    if (shortest >= 0) {
      EXPECT_EQ(c->shortest(), shortest);
    }
    for (int n = 0; n <= 4; ++n) {
      l.for_each_string(n, [&](std::span<const token_id> tokens) {
        ASSERT_EQ(c->accepts(tokens), l.has(tokens));
        ++(l.has(tokens) ? in : out);
      });
    }
  }
  EXPECT_GT(languages, 150);
  EXPECT_GT(in, 5000U);
  EXPECT_GT(out, 10000U);
}

// Rows of counted states are shared where they differ by a distance alone.
TEST(lift, counts_characters_exactly) {
  // ([ab]|cd?){0,50}(x[ab]{7})?: two states for each part, and all of them lead to one by x.
  byte_table table;
  const auto add = [&](bool is_accepting) {
    table.next.insert(table.next.end(), 256, dead_state);
    table.accepting.push_back(is_accepting ? 1 : 0);
    return static_cast<std::uint32_t>(table.accepting.size() - 1);
  };
  const auto link = [&](std::uint32_t from, char by, std::uint32_t to) {
    table.next[256 * std::size_t{from} + static_cast<unsigned char>(by)] = to;
  };
  constexpr std::uint32_t most = 50;
  for (std::uint32_t i = 0; i <= 2 * most + 1; ++i) {
    add(true);
  }
  for (std::uint32_t i = 0; i <= most; ++i) {  // 2 i: after i parts; 2 i + 1: the last one is "c"
    for (const std::uint32_t from : {2 * i, 2 * i + 1}) {
      for (const char c : {'a', 'b', 'c'}) {
        if (i < most) {
          link(from, c, 2 * (i + 1) + (c == 'c' ? 1 : 0));
        }
      }
    }
    link(2 * i + 1, 'd', 2 * i);
  }
  std::uint32_t chain = add(false);
  for (std::uint32_t from = 0; from < chain; ++from) {
    link(from, 'x', chain);
  }
  for (int i = 0; i < 7; ++i) {
    const std::uint32_t next = add(i == 6);
    link(chain, 'a', next);
    link(chain, 'b', next);
    chain = next;
  }
  const std::vector<std::string_view> words{
      "a", "b", "c", "d", "ab", "cd", "dc", "bbb", "cdcda", "aaaaaaa", "x", "dax", "bxab", "", ""};
  const model_info model{.vocab = 15, .mask_token = 13, .eos_token = 14};
  const constraint lifted(table, vocabulary(words, model), small);
  int in = 0;
  dice d(7);
  for (int turn = 0; turn < 40000; ++turn) {
    std::vector<token_id> tokens;
    std::uint32_t state = 0;
    const int length = d.within(1, 40);
    for (int i = 0; i < length && state != dead_state; ++i) {
      // Mostly tokens that may follow, and seldom x, so that the bound is reached.
      const int token = d.within(0, d.chance(0.05) ? 12 : 9);
      std::uint32_t next = state;
      for (const char c : words[static_cast<std::size_t>(token)]) {
        next = next == dead_state
                   ? next
                   : table.next[256 * std::size_t{next} + static_cast<unsigned char>(c)];
      }
      if (next != dead_state || d.chance(0.05)) {
        tokens.push_back(token);
        state = next;
      }
    }
    const bool is_in = state != dead_state && table.accepting[state] != 0;
    in += is_in && tokens.size() > 20 ? 1 : 0;
    ASSERT_EQ(lifted.accepts(tokens), is_in);
  }
  EXPECT_GT(in, 1000);
  EXPECT_EQ(refusal([&] { constraint(table, vocabulary(words, model), {.rows = 9}); }),
            "constraint has over 9 states whose rows differ by more than a distance, the limit "
            "constraint_limits::rows: allow less, or raise it");
}

TEST(lift, and_transitions_over_tokens_give_the_same_language) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    dice d(seed);
    const language l = random_language(d);
    const std::optional<constraint> c = constraint_of(l, small);
    if (!c) {
      continue;
    }
    std::vector<token_transition> transitions;
    const auto states = static_cast<std::uint32_t>(l.bytes.accepting.size());
    for (std::uint32_t q = 0; q < states; ++q) {
      for (token_id v = 0; v < l.model.vocab; ++v) {
        const std::uint32_t next = l.walk({&v, 1}, q);
        if (next != dead_state) {  // an Index has its own transition after an EOS token
          transitions.push_back({q, v, next == language::ended ? q : next});
        }
      }
    }
    std::reverse(transitions.begin(), transitions.end());
    const constraint t = constraint::from_transitions(
        transitions, states, l.bytes.start, l.bytes.accepting, l.model, l.also_eos, small);
    EXPECT_EQ(t.shortest(), c->shortest());
    for (int n = 0; n <= 4; ++n) {
      l.for_each_string(n, [&](std::span<const token_id> tokens) {
        ASSERT_EQ(t.accepts(tokens), l.has(tokens));
      });
    }
  }
}

TEST(lift, gives_equal_tokens_one_class) {
  const byte_table any{std::vector<std::uint32_t>(256, 0), {1}, 0};
  const std::vector<std::string_view> words{"a", "b", "", "ab", "a", "", "\xe2\x82"};
  const model_info model{.vocab = 7, .mask_token = 2, .eos_token = 5};
  const constraint c(any, vocabulary(words, model), small);
  EXPECT_EQ(c.classes(), 2U);  // text and the end
  EXPECT_EQ(c.states(), 2U);
  EXPECT_EQ(c.shortest(), 0);
  const std::vector<token_id> good{0, 1, 3, 4, 6, 5, 5};
  const std::vector<token_id> bad{0, 5, 1};
  EXPECT_TRUE(c.accepts(good));
  EXPECT_FALSE(c.accepts(bad));
  const token_id mask = 2;
  EXPECT_FALSE(c.accepts({&mask, 1}));
}

TEST(lift, refuses_too_many_states) {
  byte_table chain{
      std::vector<std::uint32_t>(100 * 256, dead_state), std::vector<std::uint8_t>(100, 0), 0};
  for (std::uint32_t q = 0; q + 1 < 100; ++q) {
    chain.next[256 * q + 'a'] = q + 1;
  }
  chain.accepting[99] = 1;
  const std::vector<std::string_view> words{"a", "", "</s>"};
  const model_info model{.vocab = 3, .mask_token = 1, .eos_token = 2};
  const vocabulary all(words, model);
  EXPECT_EQ(constraint(chain.view(), all, {.states = 101, .bytes = 1 << 16}).shortest(), 99);
  EXPECT_EQ(refusal([&] { constraint(chain.view(), all, {.states = 100, .bytes = 1 << 16}); }),
            "constraint has 101 states, the limit is 100: a maxLength of hundreds counts every "
            "character; leave it out or raise constraint_limits::states");
  chain.accepting[50] = 1;  // the states after it are of no string but the longer one
  chain.next[256 * 60 + 'a'] = dead_state;
  EXPECT_EQ(constraint(chain.view(), all, {.states = 52, .bytes = 1 << 16}).states(), 52U);
}

TEST(lift, refuses_what_cannot_be_written) {
  byte_table brace{std::vector<std::uint32_t>(2 * 256, dead_state), {0, 1}, 0};
  brace.next['{'] = 1;
  const std::vector<std::string_view> words{"a", ""};
  const model_info model{.vocab = 2, .mask_token = 1};
  EXPECT_EQ(refusal([&] { constraint(brace.view(), vocabulary(words, model), small); }),
            "constraint: no string of the language can be written with the tokens: none has byte "
            "0x7b");
  brace.accepting[1] = 0;
  EXPECT_EQ(refusal([&] { constraint(brace.view(), vocabulary(words, model), small); }),
            "constraint: the automaton accepts no string");
  EXPECT_EQ(
      refusal([&] { vocabulary(words, {.vocab = 3, .mask_token = 1}); }),
      "constraint: token_bytes has 2 entries, the model 3: give \"\" for tokens without text");
}

TEST(transitions, are_checked) {
  const model_info model{.vocab = 4, .mask_token = 3, .eos_token = 2};
  const std::vector<std::uint8_t> accepting{0, 1};
  const auto of = [&](std::vector<token_transition> list, std::uint32_t start = 0) {
    return refusal([&] {
      static_cast<void>(constraint::from_transitions(list, 2, start, accepting, model, {}, small));
    });
  };
  EXPECT_EQ(of({{0, 0, 1}, {1, 2, 1}}), "");
  EXPECT_EQ(of({{0, 0, 1}, {0, 0, 1}}), "");
  EXPECT_NE(of({{0, 0, 1}, {0, 0, 0}}).find("the automaton must be deterministic"),
            std::string::npos);
  EXPECT_NE(of({{0, 0, 2}}).find("state of a transition must be less than"), std::string::npos);
  EXPECT_NE(of({{0, 4, 1}}).find("token of a transition"), std::string::npos);
  EXPECT_NE(of({{0, 3, 1}}).find("not the mask token"), std::string::npos);
  EXPECT_NE(of({{0, 2, 1}}).find("no EOS token where the state accepts no string"),
            std::string::npos);
  EXPECT_NE(of({{0, 0, 1}}, 2).find("start must be less than"), std::string::npos);
  EXPECT_EQ(of({{1, 0, 0}}), "constraint: the automaton accepts no string");
}

TEST(constraint, is_read_from_a_file) {
  dice d(7);
  language l = random_language(d);
  l.bytes.accepting[l.bytes.start] = 1;
  const std::string path = ::testing::TempDir() + "unmask_constraint.dfa";
  write_byte_table(path, l.bytes);
  const constraint c = constraint::read(path, l.lifted_to(), small);
  std::remove(path.c_str());
  l.for_each_string(
      3, [&](std::span<const token_id> tokens) { ASSERT_EQ(c.accepts(tokens), l.has(tokens)); });
  EXPECT_EQ(c.another().shortest(), c.shortest());
}

}  // namespace
}  // namespace unmask::testing::lift_test
