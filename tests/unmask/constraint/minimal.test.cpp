// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/constraint.hpp>
#include <unmask/constraint/minimal.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "support/dice.hpp"
#include "support/languages.hpp"

namespace unmask::testing::minimal_test {
namespace {

using detail::constraints::minimal;

std::uint32_t after(const byte_table& a, std::uint32_t q, std::size_t b) {
  return q == dead_state ? dead_state : a.next[256 * std::size_t{q} + b];
}

bool accepts(const byte_table& a, std::uint32_t q) {
  return q != dead_state && a.accepting[q] != 0;
}

// The same automaton without states that no string passes.
byte_table trimmed(const byte_table& a) {
  const std::size_t states = a.accepting.size();
  std::vector<bool> is_reached(states);
  std::vector<bool> is_left(a.accepting.begin(), a.accepting.end());
  is_reached[a.start] = true;
  for (std::size_t rounds = 0; rounds < states; ++rounds) {
    for (std::uint32_t q = 0; q < states; ++q) {
      for (std::size_t b = 'a'; b <= 'c'; ++b) {
        if (const std::uint32_t to = after(a, q, b); to != dead_state) {
          is_reached[to] = is_reached[to] || is_reached[q];
          is_left[q] = is_left[q] || is_left[to];
        }
      }
    }
  }
  std::vector<std::uint32_t> name(states, dead_state);
  byte_table out;
  for (std::uint32_t q = 0; q < states; ++q) {
    if (is_reached[q] && is_left[q]) {
      name[q] = static_cast<std::uint32_t>(out.accepting.size());
      out.accepting.push_back(a.accepting[q]);
    }
  }
  out.start = name[a.start];
  out.next.assign(256 * out.accepting.size(), dead_state);
  for (std::uint32_t q = 0; q < states; ++q) {
    for (std::size_t b = 'a'; name[q] != dead_state && b <= 'c'; ++b) {
      const std::uint32_t to = after(a, q, b);
      out.next[256 * std::size_t{name[q]} + b] = to == dead_state ? dead_state : name[to];
    }
  }
  return out;
}

// For each state of `a` the state of `b` that a string leads to which leads to it; fails if the
// two languages differ.
std::vector<std::uint32_t> partners(const byte_table& a, const byte_table& b) {
  std::vector<std::uint32_t> found(a.accepting.size(), dead_state);
  std::set<std::pair<std::uint32_t, std::uint32_t>> seen = {{a.start, b.start}};
  std::vector<std::pair<std::uint32_t, std::uint32_t>> queue(seen.begin(), seen.end());
  for (std::size_t i = 0; i < queue.size(); ++i) {
    const auto [p, q] = queue[i];
    EXPECT_EQ(accepts(a, p), accepts(b, q));
    EXPECT_EQ(p == dead_state, q == dead_state);
    if (p == dead_state || q == dead_state) {
      continue;
    }
    EXPECT_TRUE(found[p] == dead_state || found[p] == q);
    found[p] = q;
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::pair next(after(a, p, byte), after(b, q, byte));
      if (seen.insert(next).second) {
        queue.push_back(next);
      }
    }
  }
  return found;
}

// States of which a string tells no two apart, counted by the table of all pairs.
std::size_t states_needed(const byte_table& a) {
  const auto states = static_cast<std::uint32_t>(a.accepting.size());
  std::vector<std::vector<bool>> apart(states + 1, std::vector<bool>(states + 1));
  const auto index = [&](std::uint32_t q) { return q == dead_state ? states : q; };
  for (std::uint32_t p = 0; p <= states; ++p) {
    for (std::uint32_t q = 0; q <= states; ++q) {
      apart[p][q] =
          accepts(a, p == states ? dead_state : p) != accepts(a, q == states ? dead_state : q);
    }
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (std::uint32_t p = 0; p <= states; ++p) {
      for (std::uint32_t q = 0; q <= states; ++q) {
        for (std::size_t b = 'a'; !apart[p][q] && b <= 'c'; ++b) {
          const std::uint32_t to = index(after(a, p == states ? dead_state : p, b));
          const std::uint32_t other = index(after(a, q == states ? dead_state : q, b));
          changed = changed || apart[to][other];
          apart[p][q] = apart[to][other];
        }
      }
    }
  }
  std::size_t count = 0;
  for (std::uint32_t p = 0; p < states; ++p) {
    bool is_first = true;
    for (std::uint32_t q = 0; q < p; ++q) {
      is_first = is_first && apart[p][q];
    }
    count += is_first ? 1 : 0;
  }
  return count;
}

TEST(minimal, has_the_same_language_and_no_two_states_that_no_string_tells_apart) {
  std::size_t removed = 0;
  std::size_t kept = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    dice d(seed);
    byte_table random = random_bytes(d, d.within(1, 14), 3);
    if (d.chance(0.5)) {  // a copy of each state, so that there is something to remove
      const std::size_t states = random.accepting.size();
      random.accepting.insert(
          random.accepting.end(), random.accepting.begin(), random.accepting.end());
      random.next.insert(random.next.end(), random.next.begin(), random.next.end());
      for (std::uint32_t& to : random.next) {
        to = to != dead_state && d.chance(0.5) ? to + static_cast<std::uint32_t>(states) : to;
      }
    }
    const byte_table a = trimmed(random);
    if (a.accepting.empty()) {
      continue;
    }
    const byte_table least = minimal(a);
    ASSERT_EQ(least.accepting.size(), states_needed(a));
    const std::vector<std::uint32_t> of = partners(a, least);
    // In the order of the first state that each replaces.
    std::uint32_t named = 0;
    for (const std::uint32_t q : of) {
      ASSERT_LE(q, named);
      named = std::max(named, q + 1);
    }
    const byte_table again = minimal(least);
    EXPECT_EQ(again.next, least.next);
    EXPECT_EQ(again.start, least.start);
    removed += a.accepting.size() - least.accepting.size();
    kept += least.accepting.size();
  }
  EXPECT_GT(removed, 2000U);
  EXPECT_GT(kept, 5000U);
}

TEST(minimal, counts_states_of_a_constraint) {
  // (a|b)c in 1 + 2 + 1 + 1 states: those after a and after b are one.
  byte_table table{std::vector<std::uint32_t>(5 * 256, dead_state), {0, 0, 0, 1, 1}, 0};
  table.next['a'] = 1;
  table.next['b'] = 2;
  table.next[256 + 'c'] = 3;
  table.next[2 * 256 + 'c'] = 4;
  const std::vector<std::string_view> words = {"a", "b", "c", ""};
  const vocabulary all(words, {.vocab = 4, .mask_token = 3});
  EXPECT_EQ(constraint(table.view(), all, {.states = 3, .bytes = 1 << 16}).states(), 3U);
}

}  // namespace
}  // namespace unmask::testing::minimal_test
