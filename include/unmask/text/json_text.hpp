// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/types.hpp>
#include <unmask/text/utf8.hpp>
#include <unmask/text/write_number.hpp>

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace UNMASK_NAMESPACE {

/// JSON that is written value by value: commas follow from the order of the calls, and all is on
/// one line except for break_line().
///
/// Numbers have the fewest digits that read back as the same value; one that is not finite is null.
/// Strings are valid UTF-8, without control characters and without < > &, so that HTML can contain
/// a line: bytes that are not UTF-8 become U+FFFD.
class json_text {
 public:
  /// Begins an object or a list.
  void open(char bracket) {
    separate();
    text_ += bracket;
    is_first_ = true;
  }
  /// Ends it.
  void close(char bracket) {
    end_line();
    text_ += bracket;
    is_first_ = false;
  }
  /// Begins a line with the given indentation, for what is next: a value, a key or a closing
  /// bracket.
  void break_line(std::size_t spaces) {
    breaks_ = true;
    indent_ = spaces;
  }
  /// The name of the member whose value is next.
  void key(std::string_view name) {
    string(name);
    text_ += ':';
    is_first_ = true;
  }

  /// A number.
  void number(std::integral auto value) { append(value); }
  /// A number with the fewest digits that read back as the same; null if it is not finite.
  void number(std::floating_point auto value) {
    if (!std::isfinite(value)) {
      word("null");
    } else if (value == 0 && std::signbit(value)) {
      word("-0.0");  // some readers take -0 for a whole number
    } else {
      append(value);
    }
  }
  /// A word of JSON: true, false, null.
  void word(std::string_view name) {
    separate();
    text_ += name;
  }
  /// A string.
  void string(std::string_view value) {
    separate();
    text_ += '"';
    for (std::size_t i = 0; i < value.size();) {
      const std::size_t size = detail::utf8_character_size(value.substr(i));
      character(value.substr(i, size == 0 ? 1 : size), size > 0);
      i += size == 0 ? 1 : size;
    }
    text_ += '"';
  }

  /// A list of whole numbers.
  void numbers(const auto& all) {
    open('[');
    for (const auto value : all) {
      number(value);
    }
    close(']');
  }

  /// Ends the line and returns it, with its line end. Valid until the next call.
  [[nodiscard]] std::string_view line() {
    text_ += '\n';
    return text_;
  }
  /// Begins another line.
  void clear() {
    text_.clear();
    is_first_ = true;
  }

  /// Makes room for the given number of bytes more, which are then written without an allocation.
  void reserve(std::size_t bytes) { text_.reserve(text_.size() + bytes); }
  /// Most bytes of a string of the given length, with quotes and the comma.
  [[nodiscard]] static constexpr std::size_t most_bytes(std::size_t size) { return 6 * size + 3; }

 private:
  void separate() {
    text_ += is_first_ ? "" : ",";
    is_first_ = false;
    end_line();
  }
  void end_line() {
    if (breaks_) {
      text_ += '\n';
      text_.append(indent_, ' ');
      breaks_ = false;
    }
  }

  void append(auto value) {
    separate();
    char digits[detail::most_digits];
    text_.append(digits, detail::write_number(digits, value));
  }

  void character(std::string_view bytes, bool is_valid) {
    const auto first = static_cast<unsigned char>(bytes[0]);
    if (!is_valid) {
      text_ += "\\ufffd";
    } else if (bytes == "\"" || bytes == "\\") {
      text_ += '\\';
      text_ += bytes;
    } else if (first < 0x20 || first == 0x7F || bytes == "<" || bytes == ">" || bytes == "&") {
      constexpr std::string_view digits = "0123456789abcdef";
      text_ += "\\u00";
      text_ += digits[first >> 4U];
      text_ += digits[first & 15U];
    } else if (bytes == "\xE2\x80\xA8" || bytes == "\xE2\x80\xA9") {
      text_ += bytes == "\xE2\x80\xA8" ? "\\u2028" : "\\u2029";  // line ends of JavaScript
    } else {
      text_ += bytes;
    }
  }

  std::string text_;
  bool is_first_ = true;
  bool breaks_ = false;
  std::size_t indent_ = 0;
};

}  // namespace unmask
