// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/types.hpp>

#include <locale>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

/// Host only: the characters and values of profile_json.hpp.
namespace UNMASK_NAMESPACE::detail {

/// Reads a float in the form JSON writes numbers, whatever the locale; false if it is out of range.
[[nodiscard]] inline bool read_float(const std::string& digits, float& x) {
  std::istringstream in{digits};
  in.imbue(std::locale::classic());
  in >> x;
  return !in.fail() && in.peek() == std::istringstream::traits_type::eof();
}

/// The characters of a profile's text, taken one value at a time. Complains with line and key.
class profile_reader {
 public:
  explicit profile_reader(std::string_view text)
      : text_(text) {}

  [[noreturn]] void complain(std::string_view rule, std::string_view got) const {
    std::size_t line = 1;
    for (std::size_t i = 0; i < at_ && i < text_.size(); ++i) {
      line += text_[i] == '\n' ? 1 : 0;
    }
    std::ostringstream out;
    out << "profile, line " << line << ": " << (key_.empty() ? "the text" : key_) << " must be "
        << rule << ", got " << shown(got);
    throw std::invalid_argument(out.str());
  }

  /// Whether the next character that is not white space is this one; takes it if so.
  [[nodiscard]] bool take(char wanted) {
    skip_space();
    const bool is_next = at_ < text_.size() && text_[at_] == wanted;
    at_ += is_next ? 1 : 0;
    return is_next;
  }
  void expect(char wanted, std::string_view rule) {
    if (!take(wanted)) {
      complain(rule, next());
    }
  }
  void expect_end() {
    skip_space();
    key_ = {};
    if (at_ < text_.size()) {
      complain("over behind the closing brace", next());
    }
  }

  [[nodiscard]] std::string_view string(std::string_view rule) {
    expect('"', rule);
    const std::size_t first = at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' && text_[at_] != '\n') {
      ++at_;
    }
    const std::string_view inside = text_.substr(first, at_ - first);
    if (at_ >= text_.size() || text_[at_] != '"') {
      complain("a string that ends on its line, without escapes", inside);
    }
    ++at_;
    return inside;
  }

  /// A number in the grammar of JSON that a float can hold.
  [[nodiscard]] float number() {
    skip_space();
    const std::string_view word = next();
    float x = 0.0F;
    if (!is_number(word) || !read_float(std::string{word}, x)) {
      complain("a number", word);
    }
    at_ += word.size();
    return x;
  }

  [[nodiscard]] index_t count() {
    skip_space();
    const std::string_view word = next();
    index_t n = 0;
    if (word.empty() || word.size() > 9 || (word.size() > 1 && word[0] == '0')) {
      complain("a whole number of at most 9 digits", word);
    }
    for (const char c : word) {
      if (!is_digit(c)) {
        complain("a whole number of at most 9 digits", word);
      }
      n = n * 10 + (c - '0');
    }
    at_ += word.size();
    return n;
  }

  /// One of `names`: its index.
  [[nodiscard]] std::size_t one_of(std::span<const std::string_view> names) {
    std::string rule = "one of";
    for (const std::string_view name : names) {
      rule.append(" \"").append(name).append("\"");
    }
    const std::string_view word = string(rule);
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] == word) {
        return i;
      }
    }
    complain(rule, word);
  }

  /// What complaints are about.
  void at_key(std::string_view key) { key_ = key; }

 private:
  [[nodiscard]] static bool is_digit(char c) { return c >= '0' && c <= '9'; }

  [[nodiscard]] static bool is_number(std::string_view s) {
    std::size_t i = !s.empty() && s[0] == '-' ? 1 : 0;
    const auto digits = [&] {
      const std::size_t first = i;
      while (i < s.size() && is_digit(s[i])) {
        ++i;
      }
      return i - first;
    };
    const std::size_t whole_at = i;
    const std::size_t whole = digits();
    bool good = whole > 0 && (whole == 1 || s[whole_at] != '0');
    if (i < s.size() && s[i] == '.') {
      ++i;
      good = digits() > 0 && good;
    }
    if (i < s.size() && (s[i] == 'e' || s[i] == 'E')) {
      ++i;
      i += i < s.size() && (s[i] == '+' || s[i] == '-') ? 1 : 0;
      good = digits() > 0 && good;
    }
    return good && i == s.size();
  }

  void skip_space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) {
      ++at_;
    }
  }
  /// The word that begins here, up to what may stand behind a value.
  [[nodiscard]] std::string_view next() const {
    const std::string_view rest = text_.substr(at_);
    const std::size_t size = rest.find_first_of(" \n\t\r,]}");
    return rest.substr(0, size == 0 ? 1 : size);
  }
  [[nodiscard]] static std::string shown(std::string_view word) {
    std::string text;
    for (const char c : word.substr(0, 40)) {
      text += c >= ' ' && c <= '~' ? c : '?';
    }
    return word.empty() ? "the end" : "'" + text + (word.size() > 40 ? "...'" : "'");
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string_view key_;
};

}  // namespace unmask::detail
