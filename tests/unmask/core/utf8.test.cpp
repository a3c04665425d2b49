// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/text/utf8.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace unmask::testing::utf8_test {
namespace {

using detail::utf8_character_size;

/// The code point in `size` bytes, whether or not that is allowed: RFC 3629, section 3.
std::string encoded(std::uint32_t code, std::size_t size) {
  if (size == 1) {
    return {static_cast<char>(code)};
  }
  constexpr std::uint32_t leads[] = {0, 0, 0xC0, 0xE0, 0xF0};
  std::string bytes(size, '\0');
  for (std::size_t i = size - 1; i > 0; --i, code >>= 6U) {
    bytes[i] = static_cast<char>(0x80U | (code & 0x3FU));
  }
  bytes[0] = static_cast<char>(leads[size] | code);
  return bytes;
}

TEST(utf8_character_size, is_that_of_rfc_3629) {
  for (std::uint32_t code = 0; code <= 0x1FFFFF; code += code < 0x11000 ? 1 : 97) {
    const std::size_t size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    const bool is_character = code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
    ASSERT_EQ(utf8_character_size(encoded(code, size) + "\x80"), is_character ? size : 0) << code;
    if (size > 1) {
      ASSERT_EQ(utf8_character_size(encoded(code, size).substr(0, size - 1)), 0U) << "cut short";
    }
    if (size < 4 && code >= 0x40) {
      ASSERT_EQ(utf8_character_size(encoded(code, size + 1)), 0U) << "longer than it needs";
    }
  }
  for (const std::uint32_t last : {0x10FFFFU, 0x110000U}) {
    EXPECT_EQ(utf8_character_size(encoded(last, 4)), last == 0x10FFFF ? 4U : 0U);
  }
}

TEST(utf8_character_size, is_0_where_no_character_begins) {
  EXPECT_EQ(utf8_character_size(""), 0U);
  for (const char* text : {"\x80", "\xBF", "\xF8\x88\x80\x80\x80", "\xFF", "\xC3(", "\xE2\x82("}) {
    EXPECT_EQ(utf8_character_size(text), 0U);
  }
  for (int byte = 0x80; byte <= 0xFF; ++byte) {
    EXPECT_EQ(utf8_character_size(std::string{static_cast<char>(byte), 'a'}), 0U);
  }
}

TEST(utf8_character_size, is_of_the_bytes_of_the_text_alone) {
  for (const std::uint32_t code : {0x41U, 0xE9U, 0x20ACU, 0x1F600U}) {
    const std::size_t size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    const std::string whole = encoded(code, size) + "\x80\x80";
    for (std::size_t bytes = 0; bytes <= whole.size(); ++bytes) {
      // The character goes on in the memory behind the text.
      EXPECT_EQ(utf8_character_size(std::string_view(whole).substr(0, bytes)),
                bytes < size ? 0U : size)
          << code << ", " << bytes << " bytes";
    }
  }
}

}  // namespace
}  // namespace unmask::testing::utf8_test
