// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/constraint.hpp>
#include <unmask/constraint/running_field.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/dice.hpp"
#include "support/languages.hpp"

namespace unmask::testing::running_field_test {
namespace {

using detail::constraints::lift;
using detail::constraints::running_field;
using detail::constraints::set_pool;

std::shared_ptr<set_pool> pool_of(const language& l, const constraint_limits& limits) {
  const vocabulary words = l.lifted_to();
  return std::make_shared<set_pool>(std::make_shared<const detail::constraints::token_automaton>(
                                        lift(l.bytes.view(), words.data(), {.states = 100})),
                                    limits);
}

/// A request: what is given, what is suppressed, what is banned where, what follows.
struct request {
  std::vector<token_id> tokens = {};
  std::vector<token_id> suppressed = {};
  int banned = -1;  // a token, at positions below `until`
  int until = 0;
  index_t tokens_after = 0;

  [[nodiscard]] bool may(token_id v, std::size_t at) const {
    return std::find(suppressed.begin(), suppressed.end(), v) == suppressed.end() &&
           (v != banned || static_cast<int>(at) >= until);
  }
};

/// By position and token: whether a string of the language has the tokens of `x` elsewhere, and it
/// there. By trying all strings.
struct enumeration {
  std::vector<std::vector<bool>> possible;
  bool any = false;

  enumeration(const language& l, const request& r, const std::vector<token_id>& x)
      : possible(x.size(), std::vector<bool>(static_cast<std::size_t>(l.model.vocab))) {
    const auto total = static_cast<int>(x.size()) + std::max(r.tokens_after, 0);
    l.for_each_string(total, [&](std::span<const token_id> s) {
      if (!l.has(s)) {
        return;
      }
      std::size_t differs = 0;
      std::size_t where = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const bool fits = x[i] == no_token ? r.may(s[i], i) : x[i] == s[i];
        differs += fits ? 0 : 1;
        where = fits ? where : i;
      }
      any = any || differs == 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (differs == 0 || (differs == 1 && where == i)) {
          possible[i][static_cast<std::size_t>(s[i])] = true;
        }
      }
    });
  }
};

bool allows(const void* of, token_id token, index_t position) {
  const auto& r = *static_cast<const request*>(of);
  return token != r.banned || position >= r.until;
}

std::unique_ptr<running_field> begin(const std::shared_ptr<set_pool>& pool, const request& r) {
  const constrained_field field{.tokens_after = r.tokens_after};
  detail::answer_start with;
  with.suppressed = r.suppressed;
  with.allows = r.banned >= 0 ? &allows : nullptr;
  with.policy = &r;
  return std::make_unique<running_field>(pool, field, 0, r.tokens, with);
}

bool has_token(const std::uint32_t* mask, std::size_t v) {
  return (mask[v / 32] >> v % 32 & 1U) != 0;
}

request random_field(dice& d, const language& l) {
  request r;
  r.tokens.assign(static_cast<std::size_t>(d.within(0, 5)), no_token);
  for (token_id& v : r.tokens) {
    v = d.chance(0.1) ? d.within(0, l.model.vocab - 1) : no_token;
  }
  if (d.chance(0.3)) {
    r.suppressed.push_back(d.within(0, l.model.vocab - 1));
  }
  if (d.chance(0.3)) {
    r.banned = d.within(0, l.model.vocab - 1);
    r.until = d.within(0, 5);
  }
  r.tokens_after = d.chance(0.2) ? d.within(0, 2) : 0;
  return r;
}

struct counts {
  int fields = 0;
  int refused = 0;
  int tests = 0;
  std::size_t flushes = 0;
};

void compare(std::uint64_t seed, const constraint_limits& limits, counts& n) {
  SCOPED_TRACE(seed);
  dice d(seed);
  const language l = random_language(d, d.within(3, 5));
  if (!constraint_of(l, limits)) {
    return;
  }
  const auto pool = pool_of(l, limits);
  const request r = random_field(d, l);
  std::vector<token_id> x = r.tokens;
  std::unique_ptr<running_field> field;
  try {
    field = begin(pool, r);
  } catch (const std::invalid_argument& e) {
    ASSERT_FALSE(enumeration(l, r, x).any) << e.what();
    ++n.refused;
    return;
  }
  ++n.fields;
  for (int step = 0; step < 12; ++step) {
    // Several changes between which only some of the sets are computed.
    for (int k = d.within(0, 3); k > 0 && !x.empty(); --k) {
      const auto at = static_cast<std::size_t>(d.within(0, static_cast<int>(x.size()) - 1));
      if (r.tokens[at] != no_token) {
        continue;
      }
      const token_id v = d.within(0, l.model.vocab - 1);
      if (x[at] != no_token && d.chance(0.5)) {
        x[at] = no_token;
      } else if (r.may(v, at) && field->admits(serial{}, static_cast<index_t>(at), v)) {
        x[at] = v;
      }
      field->write(static_cast<index_t>(at), x[at]);
    }
    const enumeration all(l, r, x);
    ASSERT_TRUE(all.any);
    for (std::size_t i = 0; i < x.size(); ++i) {
      for (std::size_t v = 0; v < all.possible[i].size(); ++v) {
        const auto token = static_cast<token_id>(v);
        ASSERT_EQ(field->admits(serial{}, static_cast<index_t>(i), token), all.possible[i][v])
            << "token " << v << " at " << i;
        ++n.tests;
      }
      const std::uint32_t* const mask = field->mask(static_cast<index_t>(i), nullptr);
      ASSERT_NE(mask, nullptr);
      for (std::size_t v = 0; v < all.possible[i].size(); ++v) {
        ASSERT_EQ(has_token(mask, v), all.possible[i][v]) << "token " << v << " at " << i;
      }
      field->release();
    }
    // Certain tokens: each masked position that has one usable token.
    if (d.chance(0.5)) {
      std::vector<token_id> filled(x.size(), no_token);
      std::vector<token_id> room(x.size());
      field->fill(serial{}, room.data(), [&](index_t at, token_id token) {
        filled[static_cast<std::size_t>(at)] = token;
      });
      for (std::size_t i = 0; i < x.size(); ++i) {
        int usable = 0;
        for (std::size_t v = 0; v < all.possible[i].size(); ++v) {
          const auto w = static_cast<token_id>(v);
          usable += all.possible[i][v] && r.may(w, i) ? 1 : 0;
        }
        if (filled[i] != no_token) {
          ASSERT_EQ(x[i], no_token);
          ASSERT_EQ(usable, 1);
          ASSERT_TRUE(all.possible[i][static_cast<std::size_t>(filled[i])]);
          x[i] = filled[i];
        } else if (r.banned < 0) {
          ASSERT_FALSE(usable == 1 && x[i] == no_token) << "at " << i;
        }
      }
      continue;
    }
    if (x.empty()) {
      break;
    }
    const auto at = static_cast<std::size_t>(d.within(0, static_cast<int>(x.size()) - 1));
    if (x[at] != no_token && r.tokens[at] == no_token && d.chance(0.5)) {
      x[at] = no_token;
    } else if (r.tokens[at] == no_token) {
      const token_id v = d.within(0, l.model.vocab - 1);
      if (!all.possible[at][static_cast<std::size_t>(v)] || !r.may(v, at)) {
        continue;
      }
      x[at] = v;
    }
    field->write(static_cast<index_t>(at), x[at]);
  }
  // Law: the state after the tokens before the first mask leads on as those tokens do.
  const bool is_complete = std::find(x.begin(), x.end(), no_token) == x.end();
  const bool is_met = field->is_met(serial{});
  ASSERT_EQ(is_met, is_complete);
  n.flushes += pool->flushes();
}

TEST(running_field, knows_the_tokens_that_can_be_completed) {
  counts n;
  for (std::uint64_t seed = 0; seed < 1500 && !HasFailure(); ++seed) {
    compare(seed, {.bytes = 1 << 18}, n);
  }
  EXPECT_GT(n.fields, 500);
  EXPECT_GT(n.refused, 100);
  EXPECT_GT(n.tests, 50000);
}

TEST(running_field, knows_the_same_with_a_memory_that_is_too_small) {
  counts n;
  for (std::uint64_t seed = 0; seed < 1500 && !HasFailure(); ++seed) {
    compare(seed, {.bytes = 1 << 18, .entries = 14}, n);
  }
  EXPECT_GT(n.flushes, 100U);
}

TEST(running_field, refuses_with_the_reason) {
  language l;
  l.words = {"a", "b", "", "$"};
  l.model = {.vocab = 4, .mask_token = 2, .eos_token = 3};
  l.bytes = {std::vector<std::uint32_t>(4 * 256, dead_state), {0, 0, 0, 1}, 0};
  l.bytes.next['a'] = 1;  // "aab"
  l.bytes.next[256 + 'a'] = 2;
  l.bytes.next[512 + 'b'] = 3;
  const auto pool = pool_of(l, {.bytes = 1 << 18});
  const auto why = [&](const request& r) -> std::string {
    try {
      static_cast<void>(begin(pool, r));
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  };
  const token_id m = no_token;
  EXPECT_EQ(why({.tokens = {m, m, m, m}}), "");
  EXPECT_EQ(why({.tokens = {m, m}, .tokens_after = 1}), "");
  EXPECT_EQ(why({.tokens = {m, m}}),
            "constraint needs at least 3 tokens, but the answer has 2: lengthen the answer or "
            "shorten the schema");
  EXPECT_EQ(why({.tokens = {m, 1, m}}),
            "constraint: position 1 holds token 1, which no string of the language has there");
  EXPECT_EQ(why({.tokens = {m, 2, m}}),
            "constraint: position 1 holds token 2, which no string of the language has there");
  EXPECT_EQ(why({.tokens = {m, m, m, 0}}),
            "constraint: position 3 holds token 0, which no string of the language has there");
  EXPECT_EQ(why({.tokens = {m, m, m}, .suppressed = {1}}),
            "constraint: the tokens that are suppressed, or that the policy excludes, are in every "
            "string of the language");
  l.model.eos_token = no_token;
  const auto exact = pool_of(l, {.bytes = 1 << 18});
  const request four{.tokens = {m, m, m, m}};
  try {
    static_cast<void>(begin(exact, four));
    FAIL();
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(),
                 "constraint: no answer of 4 tokens is in the language: without eos_token the "
                 "length must be exact");
  }
}

TEST(running_field, has_as_many_sequences_as_are_started) {
  dice d(3);
  language l = random_language(d);
  l.bytes.accepting.assign(l.bytes.accepting.size(), 1);
  const auto pool = pool_of(l, {.bytes = 1 << 18, .entries = 8});
  const request two{.tokens = {no_token, no_token}};
  std::vector<std::unique_ptr<running_field>> fields;
  for (int i = 0; i < 20; ++i) {
    fields.push_back(begin(pool, two));  // six sets each
  }
  EXPECT_GE(pool->most_sets(), 120U);
  for (const auto& field : fields) {
    const token_id token = field->lowest(1);
    EXPECT_TRUE(field->admits(serial{}, 1, token));
    field->write(1, token);
    field->write(0, field->lowest(0));
    EXPECT_TRUE(field->is_met(serial{}));
  }
}

/// Constraints that count how many of them have ended.
struct counted_answer final : detail::constrained_answer {
  explicit counted_answer(int& count)
      : ended(count) {}
  counted_answer(const counted_answer&) = delete;
  counted_answer& operator=(const counted_answer&) = delete;
  ~counted_answer() override { ++ended; }

  const std::uint32_t* mask(index_t, const std::uint32_t* given, bool&) override { return given; }
  void release() override {}
  range last_field() const override { return {}; }
  bool admits(index_t, token_id) override { return true; }
  void write(index_t, token_id) override {}
  void mask(index_t) override {}
  bool is_certain(index_t) override { return false; }
  bool reads_again(index_t) override { return false; }
  bool reads_again() override { return false; }
  token_id lowest(index_t) override { return no_token; }
  bool place(index_t) override { return false; }
  detail::placed_tokens place_tokens() override { return {}; }
  std::size_t fields() override { return 0; }
  void check_field(std::size_t) override {}
  detail::field_sizes sizes(std::size_t) override { return {}; }
  void write_tables(std::size_t, detail::field_tables&) override {}
  std::uint32_t state_of(std::size_t, const std::uint32_t*) override { return 0; }
  bool is_string(std::size_t, const std::uint32_t*) override { return false; }
  bool finish(const token_id*, const mark*) override { return true; }
  commit_entry* entries() override { return nullptr; }
  candidate_entry* traced() override { return nullptr; }

  int& ended;
};

TEST(owned_answer, ends_the_one_that_it_replaces) {
  int ended = 0;
  detail::owned_answer held(new counted_answer(ended));
  detail::owned_answer next(new counted_answer(ended));
  const detail::constrained_answer* const kept = next.get();
  held = std::move(next);
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(held.get(), kept);
  held = {};
  EXPECT_EQ(ended, 2);
}

}  // namespace
}  // namespace unmask::testing::running_field_test
