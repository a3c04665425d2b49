// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/types.hpp>
#include <unmask/text/read_number.hpp>

#include <charconv>
#include <concepts>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace UNMASK_NAMESPACE {

/// Reads one line of JSON value by value, in the order of the calls. The caller names the type that
/// it expects; skip() takes any value, at most `most_levels` deep.
///
/// Errors: std::invalid_argument that names line and column.
class json_reader {
 public:
  /// `line` is the number of the line in its text, from 1.
  explicit json_reader(std::string_view text, index_t line = 1)
      : text_(text)
      , line_(line) {}

  /// Reads an object; calls member(key) in front of each value, which it must read.
  void object(const auto& member) {
    expect('{');
    if (take('}')) {
      return;
    }
    do {
      const std::string key = string();
      expect(':');
      member(std::string_view(key));
    } while (take(','));
    expect('}');
  }

  /// Reads a list; calls value() in front of each, which it must read.
  void list(const auto& value) {
    expect('[');
    if (take(']')) {
      return;
    }
    do {
      value();
    } while (take(','));
    expect(']');
  }

  /// Reads a whole number of type T.
  template <std::integral T>
  [[nodiscard]] T whole() {
    skip_spaces();
    T value{};
    const char* const first = text_.data() + at_;
    const auto read = std::from_chars(first, text_.data() + text_.size(), value);
    const auto size = static_cast<std::size_t>(read.ptr - first);
    if (read.ec != std::errc{} || (at_ + size < text_.size() &&
                                   std::string_view(".eE").find(text_[at_ + size]) != text_.npos)) {
      fail("expected a whole number that fits");
    }
    at_ += size;
    return value;
  }

  /// Reads a real number; null is `missing`.
  [[nodiscard]] float real(float missing) {
    skip_spaces();
    if (take_word("null")) {
      return missing;
    }
    float value{};
    const char* const first = text_.data() + at_;
    const bool is_number =
        at_ < text_.size() && std::string_view("-0123456789").find(text_[at_]) != text_.npos;
    const auto read = detail::read_number(first, text_.data() + text_.size(), value);
    if (!is_number || read.ec != std::errc{}) {
      fail("expected a number that fits");
    }
    at_ += static_cast<std::size_t>(read.ptr - first);
    return value;
  }

  /// Reads a string.
  [[nodiscard]] std::string string() {
    expect('"');
    std::string value;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (static_cast<unsigned char>(text_[at_]) < 0x20) {
        fail("a string has no control characters");
      }
      if (text_[at_] == '\\') {
        ++at_;
        add_escaped(value);
      } else {
        value += text_[at_++];
      }
    }
    expect('"');
    return value;
  }

  /// Reads any value and ignores it.
  void skip() { skip(0); }

  /// Checks that nothing follows.
  void finish() {
    skip_spaces();
    if (at_ < text_.size()) {
      fail("expected the end of the line");
    }
  }

  /// Throws the error of a rule at the current place.
  [[noreturn]] void fail(const std::string& rule) const {
    throw std::invalid_argument("trace, line " + std::to_string(line_) + ", column " +
                                std::to_string(at_ + 1) + ": " + rule);
  }

 private:
  static constexpr int most_levels = 32;

  void skip_spaces() {
    while (at_ < text_.size() && std::string_view(" \t\r").find(text_[at_]) != text_.npos) {
      ++at_;
    }
  }
  [[nodiscard]] bool take(char wanted) {
    skip_spaces();
    const bool is_there = at_ < text_.size() && text_[at_] == wanted;
    at_ += is_there ? 1 : 0;
    return is_there;
  }
  void expect(char wanted) {
    if (!take(wanted)) {
      fail(std::string("expected ") + wanted);
    }
  }
  [[nodiscard]] bool take_word(std::string_view word) {
    const bool is_there = text_.substr(at_).starts_with(word);
    at_ += is_there ? word.size() : 0;
    return is_there;
  }

  [[nodiscard]] std::uint32_t hexadecimal() {
    std::uint32_t code = 0;
    const std::string_view digits = text_.substr(at_).substr(0, 4);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (digits.size() < 4 || read.ptr != digits.data() + 4) {
      fail("expected four hexadecimal digits");
    }
    at_ += 4;
    return code;
  }

  // The character after a backslash.
  void add_escaped(std::string& value) {
    constexpr std::string_view names = "\"\\/bfnrt";
    constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
    const char name = at_ < text_.size() ? text_[at_] : '\0';
    if (const std::size_t i = names.find(name); name != '\0' && i != names.npos) {
      value += meanings[i];
      ++at_;
    } else if (name == 'u') {
      ++at_;
      std::uint32_t code = hexadecimal();
      const std::size_t next = at_;
      if (code >> 10U == 0x36 && take_word("\\u")) {  // half of a pair
        if (const std::uint32_t low = hexadecimal(); low >> 10U == 0x37) {
          code = 0x10000U + ((code & 0x3FFU) << 10U) + (low & 0x3FFU);
        } else {
          at_ = next;
        }
      }
      constexpr std::uint32_t replacement = 0xFFFD;  // for a half that stands alone
      add_character(value, code >> 11U == 0x1B ? replacement : code);
    } else {
      fail("unknown escape");
    }
  }
  static void add_character(std::string& value, std::uint32_t code) {
    const auto add = [&value](std::uint32_t byte) { value += static_cast<char>(byte); };
    if (code < 0x80) {
      add(code);
    } else if (code < 0x800) {
      add(0xC0U | code >> 6U);
      add(0x80U | (code & 0x3FU));
    } else if (code < 0x10000) {
      add(0xE0U | code >> 12U);
      add(0x80U | (code >> 6U & 0x3FU));
      add(0x80U | (code & 0x3FU));
    } else {
      add(0xF0U | code >> 18U);
      add(0x80U | (code >> 12U & 0x3FU));
      add(0x80U | (code >> 6U & 0x3FU));
      add(0x80U | (code & 0x3FU));
    }
  }

  void skip(int level) {
    if (level == most_levels) {
      fail("values may stand in values " + std::to_string(most_levels) + " deep, not deeper");
    }
    skip_spaces();
    const char next = at_ < text_.size() ? text_[at_] : '\0';
    if (next == '{') {
      object([&](std::string_view) { skip(level + 1); });
    } else if (next == '[') {
      list([&] { skip(level + 1); });
    } else if (next == '"') {
      static_cast<void>(string());
    } else if (!take_word("true") && !take_word("false")) {
      static_cast<void>(real(0.0F));
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  index_t line_ = 1;
};

}  // namespace unmask
