// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named/policy_text_error.hpp>
#include <unmask/text/read_number.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Parser of the text of a composed policy: syntax only.
///
///     policy   = part { "+" part }
///     part     = [ "model:" ] name [ "(" [ argument { "," argument } ] ")" ]
///     argument = [ name "=" ] value
///     value    = number | "[" [ number { "," number } ] "]" | part | quoted
///
/// A name is a letter or an underscore, then letters, digits and underscores. Quoted text is
/// between two " or two ', which it cannot contain; there are no escapes. Spaces, tabs and line
/// ends between these are ignored. Host only; allocates.
namespace UNMASK_NAMESPACE {

struct part_text;

/// The value of an argument: a number, a list of numbers, a part (a word is a part without
/// arguments), or quoted text.
struct value_text {
  /// Kinds of values.
  enum class kind : unsigned char { number, list, part, quoted };
  kind is = kind::number;           ///< Kind of this one.
  double number = 0.0;              ///< Value of a number.
  std::vector<double> list;         ///< Values of a list.
  std::shared_ptr<part_text> part;  ///< the part, if the value is one
  std::string_view text;            ///< the value as written, with its quotes
  std::size_t column = 0;           ///< Column of its first character, from 1.
};

/// An argument as written.
struct argument_text {
  std::string_view name = {};  ///< empty if given by place
  value_text value = {};       ///< Its value.
};

/// A part as written. Views of the text, which must outlive them.
struct part_text {
  std::string_view name;                 ///< Name of the part.
  std::size_t column = 0;                ///< column of the name, from 1
  std::vector<argument_text> arguments;  ///< Its arguments, as written.
};

namespace detail {

class policy_text_reader {
 public:
  explicit policy_text_reader(std::string_view text)
      : text_(text) {}

  [[nodiscard]] std::vector<part_text> parts() {
    std::vector<part_text> all;
    do {
      all.push_back(part(0));
    } while (take('+'));
    if (at_ < text_.size()) {
      fail("expected '+' or the end, got " + here() + hint(all.back()));
    }
    return all;
  }

 private:
  // Largest nesting depth of parts: bounds the recursion for texts of any length.
  static constexpr int most_levels = 16;

  [[noreturn]] void fail(const std::string& problem) const {
    throw policy_text_error(text_, at_ + 1, problem);
  }

  // The next character, for a message.
  [[nodiscard]] std::string here() const {
    const std::string_view rest = text_.substr(at_);
    return rest.empty()
               ? std::string("the end")
               : quoted(rest.substr(0, std::max(utf8_character_size(rest), std::size_t{1})));
  }

  // The correct spelling of the text after a part, for a message.
  [[nodiscard]] std::string hint(const part_text& part) const {
    const std::string_view rest = text_.substr(at_);
    const char next = rest.empty() ? '\0' : rest[0];
    const bool opens = next == '=' || next == '{' || next == ':';
    if (opens || next == '.' || is_digit(next)) {
      const std::string_view behind = rest.substr(opens ? 1 : 0);
      std::string_view value = behind.substr(0, behind.find_first_of("}+,)"));
      while (!value.empty() && value.front() == ' ') {
        value.remove_prefix(1);
      }
      while (!value.empty() && value.back() == ' ') {
        value.remove_suffix(1);
      }
      const bool is_alone = part.arguments.empty() && !value.empty();
      return ": arguments are in parentheses, as in " +
             plain_or_quoted(is_alone ? std::string(part.name) + "(" + std::string(value) + ")"
                                      : "threshold(0.9)");
    }
    return next == '&'   ? ": write all_of(a, b) for two commit rules"
           : next == '|' ? ": write any_of(a, b) for two commit rules"
           : next == '-' ? ": names are written with '_'"
           : is_letter(next) || next == ',' || next == ';' ? ": parts are joined by '+'"
                                                           : "";
  }

  void skip_spaces() {
    while (at_ < text_.size() && std::string_view(" \t\n\r\v\f").find(text_[at_]) != text_.npos) {
      ++at_;
    }
  }
  [[nodiscard]] char peek() {
    skip_spaces();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char wanted) {
    const bool is_there = peek() == wanted;
    at_ += is_there ? 1 : 0;
    return is_there;
  }
  [[nodiscard]] static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  }
  [[nodiscard]] static bool is_digit(char c) { return c >= '0' && c <= '9'; }

  [[nodiscard]] std::string_view name() {
    if (!is_letter(peek())) {
      fail("expected the name of a part, got " + here());
    }
    const std::size_t first = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) {
      ++at_;
    }
    return text_.substr(first, at_ - first);
  }

  [[nodiscard]] part_text part(int level) {
    skip_spaces();
    if (level == most_levels) {
      fail("parts may be nested at most " + std::to_string(most_levels) + " deep");
    }
    part_text p;
    p.column = at_ + 1;
    p.name = name();
    if (p.name == "model" && text_.substr(at_, 1) == ":") {
      ++at_;
      static_cast<void>(name());
      p.name = text_.substr(p.column - 1, at_ - (p.column - 1));
    }
    if (take('(') && !take(')')) {
      do {
        p.arguments.push_back(argument(level));
      } while (take(','));
      if (!take(')')) {
        const value_text& last = p.arguments.back().value;
        fail(quoted(p.name) + " must end with ')'" +
             (last.is == value_text::kind::part ? hint(*last.part) : ""));
      }
    }
    return p;
  }

  [[nodiscard]] argument_text argument(int level) {
    argument_text a;
    if (is_letter(peek())) {
      const std::size_t start = at_;
      const std::string_view word = name();
      if (take('=')) {
        a.name = word;
      } else {
        at_ = start;
      }
    }
    a.value = value(level);
    return a;
  }

  [[nodiscard]] value_text value(int level) {
    value_text v;
    const char next = peek();
    const std::size_t start = at_;
    v.column = start + 1;
    if (is_letter(next)) {
      v.is = value_text::kind::part;
      v.part = std::make_shared<part_text>(part(level + 1));
    } else if (take('[')) {
      v.is = value_text::kind::list;
      if (!take(']')) {
        do {
          v.list.push_back(number());
        } while (take(','));
        if (!take(']')) {
          fail("a list must end with ']'");
        }
      }
    } else if (next == '"' || next == '\'') {
      v.is = value_text::kind::quoted;
      at_ = text_.find(next, start + 1);
      if (at_ == std::string_view::npos) {
        at_ = start;
        fail("a quoted text that begins with " + std::string(1, next) + " must end with it");
      }
      ++at_;
    } else {
      v.number = number();
    }
    v.text = text_.substr(start, at_ - start);
    return v;
  }

  [[nodiscard]] double number() {
    skip_spaces();
    double read = 0.0;
    const char* const first = text_.data() + at_;
    const char* const last = text_.data() + text_.size();
    const auto result = read_number(first, last, read);
    if (result.ec == std::errc::result_out_of_range) {
      const std::string_view number(first, static_cast<std::size_t>(result.ptr - first));
      fail("the number " + quoted(number) + " is out of range");
    }
    if (result.ec != std::errc{} || result.ptr == first) {
      fail("expected a number, a list, a name or a quoted text, got " + here());
    }
    at_ += static_cast<std::size_t>(result.ptr - first);
    return read;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace detail

/// Parses the text of a policy. Errors: policy_text_error where it does not follow the grammar.
[[nodiscard]] inline std::vector<part_text> parse_policy_text(std::string_view text) {
  return detail::policy_text_reader(text).parts();
}

/// Edit distance: the number of letters to insert, remove or change to turn one name into the
/// other; at least the difference of their lengths. Cost: O(|a| |b|) time.
[[nodiscard]] inline std::size_t spelling_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j < row.size(); ++j) {
    row[j] = j;
  }
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min(changed, std::min(row[j], row[j - 1]) + 1);
    }
  }
  return row[b.size()];
}

}  // namespace unmask
