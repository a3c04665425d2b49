// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <unmask/text/read_number.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <string>

namespace unmask::testing::read_number_test {
namespace {

// Compares the reader for libraries without std::from_chars of real numbers with that function.
template <class T, class Bits>
void expect_as_library(const std::string& text) {
  T ours{};
  T theirs{};
  const char* const end = text.data() + text.size();
  const auto a = detail::read_real(text.data(), end, ours);
  const auto b = std::from_chars(text.data(), end, theirs);
  EXPECT_EQ(a.ec, b.ec) << text;
  EXPECT_EQ(a.ptr - text.data(), b.ptr - text.data()) << text;
  EXPECT_EQ(std::bit_cast<Bits>(ours), std::bit_cast<Bits>(theirs)) << text;
}

TEST(ReadNumber, ReadsWhatTheLibraryReads) {
  for (const char* const text : {"0",
                                 "-0",
                                 "0.9",
                                 "-.5",
                                 "5.",
                                 ".",
                                 "-",
                                 "",
                                 "+1",
                                 " 1",
                                 "1 ",
                                 "0.1)",
                                 "1,5",
                                 "007",
                                 "12e3",
                                 "12e+3x",
                                 "1e-3",
                                 "1E5",
                                 "1e",
                                 "1e+",
                                 "1.e2",
                                 "-inf",
                                 "inf)",
                                 "1e39",
                                 "-1e400",
                                 "1e-400",
                                 "0e-999",
                                 "0.000e5",
                                 "abc",
                                 "e5",
                                 "0x10",
                                 "3.4028236e38",
                                 "2.2250738585072011e-308",
                                 "0.1000000000000000055511151231257827",
                                 "16777217",
                                 "1.17549435e-38",
                                 "--1"}) {
    expect_as_library<float, std::uint32_t>(text);
    expect_as_library<double, std::uint64_t>(text);
  }
}

TEST(ReadNumber, ReadsWholeNumbers) {
  const std::string text = "42]";
  int x = 0;
  const auto result = detail::read_number(text.data(), text.data() + text.size(), x);
  EXPECT_EQ(x, 42);
  EXPECT_EQ(result.ptr, text.data() + 2);
}

}  // namespace
}  // namespace unmask::testing::read_number_test
