// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/types.hpp>
#include <unmask/text/read_number.hpp>

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace UNMASK_NAMESPACE {

/// Reads JSON value by value, in the order of the calls. The caller names the type that it expects;
/// skip() takes any value, at most `most_levels` deep.
///
/// Errors: std::invalid_argument that names the source, line, column and the key of about(). It
/// does not quote the text: another file may have been named instead of the right one.
class json_reader {
 public:
  /// `source` is what errors call the text, and `line` the number of its first line, from 1.
  explicit json_reader(std::string_view text, std::string_view source, index_t line = 1)
      : text_(text)
      , source_(source)
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

  /// The kind of the next value, by its first character: { [ " t f n, or - for a number; '\0' where
  /// nothing is left.
  [[nodiscard]] char next() {
    skip_spaces();
    const char first = at_ < text_.size() ? text_[at_] : '\0';
    return first >= '0' && first <= '9' ? '-' : first;
  }

  /// Reads true or false.
  [[nodiscard]] bool boolean() {
    skip_spaces();
    const bool is_true = take_word("true");
    if (!is_true && !take_word("false")) {
      fail("expected true or false");
    }
    return is_true;
  }
  /// Reads null.
  void null() {
    skip_spaces();
    if (!take_word("null")) {
      fail("expected a value");
    }
  }
  /// Reads a number as it is written.
  [[nodiscard]] std::string_view digits() {
    const std::string_view written = number();
    at_ += written.size();
    return written;
  }

  /// Reads a whole number of type T.
  template <std::integral T>
  [[nodiscard]] T whole() {
    const std::string_view digits = number();
    T value{};
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (read.ec != std::errc{} || read.ptr != digits.data() + digits.size()) {
      fail("expected a whole number that fits");
    }
    at_ += digits.size();
    return value;
  }

  /// Reads a real number.
  [[nodiscard]] float real() {
    const std::string_view digits = number();
    float value{};
    const auto read = detail::read_number(digits.data(), digits.data() + digits.size(), value);
    if (read.ec != std::errc{}) {
      fail("expected a number that fits");
    }
    at_ += digits.size();
    return value;
  }
  /// Overload that reads null as `missing`.
  [[nodiscard]] float real(float missing) {
    skip_spaces();
    return take_word("null") ? missing : real();
  }

  /// Reads a string that is one of `words`, and returns its index.
  [[nodiscard]] std::size_t one_of(std::span<const std::string_view> words) {
    skip_spaces();
    const std::size_t first = at_;
    const std::string word = string();
    const auto found = std::find(words.begin(), words.end(), word);
    if (found == words.end()) {
      at_ = first;
      std::string rule = "expected one of";
      for (const std::string_view w : words) {
        rule.append(" \"").append(w).append("\"");
      }
      fail(rule);
    }
    return static_cast<std::size_t>(found - words.begin());
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
      fail("expected the end");
    }
  }

  /// Refuses an escape of half a pair of surrogates from here on; otherwise it is read as U+FFFD.
  void refuse_half_pairs() { refuses_half_pairs_ = true; }

  /// Errors from here on name this key, which must outlive the reader.
  void about(std::string_view key) { key_ = key; }

  /// Throws the error of a rule at the current place.
  [[noreturn]] void fail(const std::string& rule) const {
    std::string where(source_);
    where += ", line " + std::to_string(line_) + ", column " + std::to_string(at_ - line_at_ + 1);
    where.append(key_.empty() ? "" : ": ").append(key_);
    throw std::invalid_argument(where + ": " + rule);
  }

 private:
  static constexpr int most_levels = 32;

  void skip_spaces() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != text_.npos) {
      if (text_[at_++] == '\n') {
        ++line_;
        line_at_ = at_;
      }
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

  // The digits of the number that is next, which std::from_chars reads less strictly than JSON.
  [[nodiscard]] std::string_view number() {
    skip_spaces();
    std::size_t end = at_;
    const auto take_one = [&](std::string_view of) {
      const bool is_there = end < text_.size() && of.find(text_[end]) != of.npos;
      end += is_there ? 1 : 0;
      return is_there;
    };
    const auto take_digits = [&] {
      const std::size_t first = end;
      while (take_one("0123456789")) {
      }
      return end > first;
    };
    take_one("-");
    bool good = take_one("0") || take_digits();
    good = good && (!take_one(".") || take_digits());
    if (good && take_one("eE")) {
      take_one("+-");
      good = take_digits();
    }
    if (!good) {
      fail("expected a number");
    }
    return text_.substr(at_, end - at_);
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
      if (refuses_half_pairs_ && code >> 11U == 0x1B) {
        fail("half of a pair of \\u escapes is alone");
      }
      constexpr std::uint32_t replacement = 0xFFFD;  // for a single half
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
      fail("values may be nested " + std::to_string(most_levels) + " deep, not deeper");
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
  std::string_view source_;
  std::string_view key_;
  std::size_t at_ = 0;
  std::size_t line_at_ = 0;  // where the line begins
  index_t line_ = 1;
  bool refuses_half_pairs_ = false;
};

}  // namespace unmask
