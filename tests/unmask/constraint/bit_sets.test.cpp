// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/constraint/bit_sets.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

namespace unmask::testing::bit_sets_test {
namespace {

using detail::constraints::bit_sets;
using set = std::array<std::uint64_t, 3>;

// Distinct sets, most of whose words are equal.
set numbered(std::uint32_t i) {
  return {i % 7, std::uint64_t{i} << 20U, i / 1000};
}

TEST(bit_sets, finds_every_set_by_its_name_while_its_table_grows) {
  constexpr std::uint32_t count = 60'000;
  bit_sets sets(3, count);
  for (std::uint32_t i = 0; i < count; ++i) {
    ASSERT_EQ(sets.find_or_add(numbered(i).data()), i);
    ASSERT_EQ(sets.find_or_add(numbered(i / 2).data()), i / 2);
  }
  EXPECT_EQ(sets.size(), count);
  EXPECT_EQ(sets.find_or_add(numbered(count).data()), bit_sets::none);
  for (std::uint32_t i = 0; i < count; ++i) {
    ASSERT_EQ(sets.find_or_add(numbered(i).data()), i);
    ASSERT_EQ(set({sets[i][0], sets[i][1], sets[i][2]}), numbered(i));
  }
}

TEST(bit_sets, keeps_some_under_new_names_and_grows) {
  constexpr std::uint32_t count = 10'000;
  bit_sets sets(3, count);
  for (std::uint32_t i = 0; i < count; ++i) {
    static_cast<void>(sets.find_or_add(numbered(i).data()));
  }
  std::vector<std::uint32_t> name(count, bit_sets::none);
  sets.keep([](std::uint32_t i) { return i % 3 == 0; },
            [&](std::uint32_t i, std::uint32_t to) { name[i] = to; });
  ASSERT_EQ(sets.size(), (count + 2) / 3);
  for (std::uint32_t i = 0; i < count; i += 3) {
    ASSERT_EQ(name[i], i / 3);
    ASSERT_EQ(sets.find_or_add(numbered(i).data()), i / 3);
  }
  sets.grow(4 * count);
  ASSERT_EQ(sets.capacity(), 4 * count);
  for (std::uint32_t i = 0; i < count; i += 3) {
    ASSERT_EQ(sets.find_or_add(numbered(i).data()), i / 3);
  }
  EXPECT_EQ(sets.find_or_add(numbered(1).data()), (count + 2) / 3);
  sets.clear();
  EXPECT_EQ(sets.size(), 0U);
  EXPECT_EQ(sets.find_or_add(numbered(5).data()), 0U);
}

}  // namespace
}  // namespace unmask::testing::bit_sets_test
