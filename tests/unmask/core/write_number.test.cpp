// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <unmask/core/write_number.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

namespace unmask::testing {
namespace {

template <class T>
std::string written(T x) {
  char digits[detail::most_digits];
  return {digits, detail::write_number(digits, x)};
}

// As the writer for libraries without std::to_chars of real numbers does.
template <class T>
std::string written_without_library(T x) {
  char digits[detail::most_digits];
  return {digits, detail::write_real(digits, x)};
}

// Number of digits of the significand.
std::size_t digits_of(const std::string& text) {
  std::string digits;
  for (const char c : text.substr(0, text.find('e'))) {
    digits += c >= '0' && c <= '9' ? std::string(1, c) : std::string();
  }
  digits.erase(0, digits.find_first_not_of('0'));
  const std::size_t last = digits.find_last_not_of('0');
  return last == std::string::npos ? 1 : last + 1;
}

TEST(WriteNumber, WritesIntegersAndRealNumbers) {
  EXPECT_EQ(written(-12), "-12");
  EXPECT_EQ(written(std::uint64_t(-1)), "18446744073709551615");
  EXPECT_EQ(written(0.9F), "0.9");
  EXPECT_EQ(written(0.1), "0.1");
  EXPECT_EQ(written_without_library(0.9F), "0.9");
  EXPECT_EQ(written_without_library(0.1), "0.1");
  EXPECT_EQ(written_without_library(-1.0F), "-1");
  EXPECT_EQ(written_without_library(0.0F), "0");
}

TEST(WriteNumber, ReadsBackWithAsFewDigitsAsTheLibrary) {
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (x != x || x - x != 0.0F) {
      continue;
    }
    const std::string text = written_without_library(x);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(std::strtof(text.c_str(), nullptr)),
              std::bit_cast<std::uint32_t>(x))
        << text;
    EXPECT_LE(digits_of(text), digits_of(written(x))) << text << ' ' << written(x);
    EXPECT_LT(text.size(), detail::most_digits);
  }
  for (int i = 0; i < 2000; ++i) {
    const double x = std::ldexp(std::generate_canonical<double, 53>(random) - 0.5, i % 2000 - 1000);
    EXPECT_EQ(std::strtod(written_without_library(x).c_str(), nullptr), x);
  }
}

}  // namespace
}  // namespace unmask::testing
