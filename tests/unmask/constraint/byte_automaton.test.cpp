// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/constraint/byte_automaton.hpp>

#include <gtest/gtest.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/dice.hpp"
#include "support/languages.hpp"

namespace unmask::testing::byte_automaton_test {
namespace {

std::string refusal(const auto& work) {
  try {
    work();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

bool same(const byte_table& a, const byte_table& b) {
  return a.start == b.start && a.accepting == b.accepting && a.next == b.next;
}

TEST(byte_table, is_written_and_read) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    dice d(seed);
    const byte_table before = random_bytes(d, d.within(1, 20), d.within(1, 26));
    const std::string path = ::testing::TempDir() + "unmask_byte_table.dfa";
    write_byte_table(path, before);
    EXPECT_TRUE(same(read_byte_table(path), before)) << seed;
    std::remove(path.c_str());
  }
}

TEST(byte_table, that_is_cut_or_changed_is_refused_or_well_formed) {
  dice d(1);
  const byte_table table = random_bytes(d, 5, 9);
  const std::vector<std::uint8_t> whole = detail::byte_table_bytes(table);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::span cut(whole.data(), size);
    EXPECT_THROW(static_cast<void>(detail::byte_table_of(cut, 100, "cut")), std::runtime_error);
  }
  int read = 0;
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::uint8_t> bytes = whole;
    for (int k = d.within(1, 4); k > 0; --k) {
      const int at =
          d.chance(0.5) ? d.within(8, 30) : d.within(0, static_cast<int>(bytes.size()) - 1);
      bytes[static_cast<std::size_t>(at)] = static_cast<std::uint8_t>(d.bits());
    }
    try {
      const byte_table changed = detail::byte_table_of(bytes, 100, "changed");
      validate(changed.view());
      ++read;
    } catch (const std::runtime_error&) {
    }
  }
  EXPECT_GT(read, 10);  // some changes are other tables
}

TEST(byte_table, says_what_is_wrong_with_a_file) {
  const auto of = [](std::vector<std::uint8_t> bytes) {
    return refusal([&] { static_cast<void>(detail::byte_table_of(bytes, 2, "a.dfa")); });
  };
  const byte_table one{std::vector<std::uint32_t>(3 * 256, 0), {1, 0, 1}, 0};
  EXPECT_EQ(of(detail::byte_table_bytes(one)),
            "a.dfa: no byte table: it has more states than most_states allows");
  EXPECT_EQ(of({'x'}), "a.dfa: no byte table: it begins with other bytes");
  std::vector<std::uint8_t> huge = detail::byte_table_bytes({one.next, one.accepting, 0});
  huge[12] = huge[13] = huge[14] = 0xff;
  EXPECT_EQ(refusal([&] { static_cast<void>(detail::byte_table_of(huge, 0xffffffffU, "a.dfa")); }),
            "a.dfa: no byte table: it ends too early");
  EXPECT_NE(
      refusal([] { static_cast<void>(read_byte_table("/no/such.dfa")); }).find("/no/such.dfa"),
      std::string::npos);
}

TEST(byte_automaton, is_checked) {
  const byte_table one{std::vector<std::uint32_t>(256, 0), {1}, 0};
  const std::vector<std::uint32_t> elsewhere(256, 1);
  EXPECT_NO_THROW(validate(one.view()));
  EXPECT_EQ(refusal([&] { validate({one.next, {}, 0}); }),
            "byte_automaton::accepting.size() must be at least 1, got 0");
  EXPECT_EQ(refusal([&] { validate({std::span(one.next).first(255), one.accepting, 0}); }),
            "byte_automaton::next.size() must be 256 for each state, 256, got 255");
  EXPECT_EQ(refusal([&] { validate({one.next, one.accepting, 1}); }),
            "byte_automaton::start must be less than the number of states, 1, got 1");
  EXPECT_EQ(refusal([&] { validate({elsewhere, one.accepting, 0}); }),
            "byte_automaton::next must be dead_state or less than the number of states, 1, got 1");
}

}  // namespace
}  // namespace unmask::testing::byte_automaton_test
