// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/config.hpp>
#include <unmask/text/utf8.hpp>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

namespace UNMASK_NAMESPACE {

namespace detail {

// A piece of a policy's text for a message: UTF-8, on one line, and cut to a message's length.
[[nodiscard]] inline std::string quoted(std::string_view text) {
  constexpr std::size_t most = 200;
  constexpr const char* digits = "0123456789abcdef";
  std::string quote = "'";
  std::size_t at = 0;
  while (at < text.size() && at < most) {
    const std::size_t size = utf8_character_size(text.substr(at));
    const auto byte = static_cast<unsigned char>(text[at]);
    if (size > 0 && byte >= 0x20 && byte != 0x7f) {
      quote += text.substr(at, size);
    } else if (byte == '\n') {
      quote += "\\n";
    } else {
      quote += {'\\', 'x', digits[byte / 16], digits[byte % 16]};
    }
    at += size > 0 ? size : 1;
  }
  return quote + (at < text.size() ? "...'" : "'");
}

// Returns the text without quotation marks if it is short and on one line, otherwise quoted().
[[nodiscard]] inline std::string plain_or_quoted(std::string_view text) {
  std::string quote = quoted(text);
  const bool is_plain = text.size() <= 100 && quote.size() == text.size() + 2;
  return is_plain ? std::string(text) : quote;
}

}  // namespace detail

/// An error in the text of a policy, with its place: what() quotes the text, or the beginning of a
/// long one, and counts columns from 1.
class policy_text_error : public std::invalid_argument {
 public:
  /// An error in `text` at a column, from 1.
  policy_text_error(std::string_view text, std::size_t column, const std::string& problem)
      : std::invalid_argument("policy " + detail::quoted(text) + ", column " +
                              std::to_string(column) + ": " + problem)
      , column_(column) {}
  /// Column of the first wrong character, from 1.
  [[nodiscard]] std::size_t column() const { return column_; }

 private:
  std::size_t column_;
};

}  // namespace unmask
