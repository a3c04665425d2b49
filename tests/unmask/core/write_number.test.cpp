// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <unmask/text/read_number.hpp>
#include <unmask/text/write_number.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <clocale>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

namespace unmask::testing::write_number_test {
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

// A message shows a number as printf does in the locale that a program starts with.
TEST(WriteNumber, WritesSixDigitsAsPrintf) {
  std::mt19937 random(2);
  const auto expect_same = [](double x) {
    char ours[detail::most_digits] = {};
    *detail::write_six_digits(ours, x) = '\0';
    char theirs[detail::most_digits];
    std::snprintf(theirs, sizeof theirs, "%g", x);
    EXPECT_STREQ(ours, theirs);
  };
  for (const double x : {0.0, -0.0, 1.5, 1e5, 1e6, 123456.0, 1234567.0, 0.0001, 0.00001, 1e300}) {
    expect_same(x);
  }
  for (int i = 0; i < 20000; ++i) {
    expect_same(static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(random()))));
  }
  expect_same(std::numeric_limits<double>::infinity());
}

TEST(WriteNumber, DoesNotFollowTheLocaleOfTheProgram) {
  const char* found = nullptr;
  for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8"}) {
    found = found != nullptr ? found : std::setlocale(LC_NUMERIC, name);
  }
  if (found == nullptr) {
    GTEST_SKIP() << "no locale with a decimal comma: tests/soak.sh makes one";
  }
  char text[detail::most_digits] = {};
  std::snprintf(text, sizeof text, "%g", 1.5);
  EXPECT_STREQ(text, "1,5");
  *detail::write_six_digits(text, 1.5) = '\0';
  EXPECT_STREQ(text, "1.5");
  EXPECT_EQ(written(0.9F), "0.9");
  EXPECT_EQ(written_without_library(0.9F), "0.9");
  float read = 0.0F;
  const std::string number = "0.25,5";
  EXPECT_EQ(detail::read_real(number.data(), number.data() + number.size(), read).ptr,
            number.data() + 4);
  EXPECT_EQ(read, 0.25F);
  std::setlocale(LC_NUMERIC, "C");
}

}  // namespace
}  // namespace unmask::testing::write_number_test
