// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/language/budget.hpp>
#include <unmask/language/code_points.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace UNMASK_NAMESPACE::detail::languages {

/// No upper bound of a repetition.
inline constexpr std::uint32_t no_most = 0xffffffffU;

/// A regular expression as a tree.
struct expression_node {
  enum class kind : std::uint8_t {
    characters,  ///< One character of `set`.
    sequence,    ///< All of `parts`, one after the other.
    choice,      ///< One of `parts`.
    repetition,  ///< parts[0], `least` to `most` times.
    start,       ///< ^
    end,         ///< $
    look,        ///< Whether parts[0] is before or after this place, or is not.
  };
  kind is = kind::sequence;
  code_set set;
  std::vector<expression_node> parts;
  std::uint32_t least = 0;
  std::uint32_t most = 0;
  bool has_anchors = false;  ///< Whether ^, $ or a look is in it.
  bool has_looks = false;    ///< Whether a look is in it.
  bool is_behind = false;    ///< Whether a look is a look-behind.
  bool is_negated = false;   ///< Whether a look is negative.
};

/// Reads an expression of ECMA-262 with flag u, as JSON Schema asks for.
///
/// Unless `is_strict`, it also takes what is an error with flag u but has one meaning: escapes of
/// characters that are not letters (\- \@), a lone { } or ], a class as the bound of a range
/// ([\w-x]). Lazy quantifiers have the same language as the others.
class expression_reader {
 public:
  expression_reader(std::string_view text, bool is_strict)
      : is_strict_(is_strict) {
    for (std::size_t i = 0; i < text.size();) {
      codes_.push_back(next_code(text, i));
    }
  }

  /// The whole expression. Throws refused with the column.
  [[nodiscard]] expression_node read() {
    expression_node all = choice();
    if (at_ < codes_.size()) {
      fail("')' closes no group");
    }
    return all;
  }

 private:
  using kind = expression_node::kind;
  static constexpr int most_levels = 200;
  static constexpr std::size_t here = static_cast<std::size_t>(-1);

  [[noreturn]] void fail(const std::string& what, std::size_t at = here) const {
    const std::size_t column = (at == here ? at_ : at) + 1;
    throw refused(refusal{"column " + std::to_string(column) + ": " + what, "", column});
  }
  [[nodiscard]] std::uint32_t peek(std::size_t ahead = 0) const {
    return at_ + ahead < codes_.size() ? codes_[at_ + ahead] : no_code;
  }
  bool take(char wanted) {
    const bool is_there = peek() == static_cast<unsigned char>(wanted);
    at_ += is_there ? 1 : 0;
    return is_there;
  }
  [[nodiscard]] bool follows(std::string_view text) const {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (peek(i) != static_cast<unsigned char>(text[i])) {
        return false;
      }
    }
    return true;
  }
  // Something that flag u does not allow and that has one meaning.
  void loose(const std::string& what, std::size_t at) const {
    if (is_strict_) {
      fail(what, at);
    }
  }
  static std::string quoted(std::uint32_t code) {
    return code == no_code ? "the end" : "'" + utf8_of(code) + "'";
  }
  static bool is_digit(std::uint32_t code) { return code >= '0' && code <= '9'; }
  static bool is_letter(std::uint32_t code) {
    return (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z');
  }

  [[nodiscard]] expression_node choice() {
    if (++levels_ > most_levels + 1) {  // the whole is the first
      fail("groups are nested over " + std::to_string(most_levels) + " deep");
    }
    expression_node out;
    out.is = kind::choice;
    do {
      add_part(out, sequence());
    } while (take('|'));
    --levels_;
    return only_part(std::move(out));
  }
  [[nodiscard]] expression_node sequence() {
    expression_node out;
    while (at_ < codes_.size() && peek() != '|' && peek() != ')') {
      add_part(out, term());
    }
    return only_part(std::move(out));
  }
  static void add_part(expression_node& of, expression_node part) {
    of.has_anchors = of.has_anchors || part.has_anchors;
    of.has_looks = of.has_looks || part.has_looks;
    of.parts.push_back(std::move(part));
  }
  static expression_node only_part(expression_node of) {
    if (of.parts.size() != 1) {
      return of;
    }
    expression_node part = std::move(of.parts[0]);
    return part;
  }
  static expression_node characters(const code_set& set) {
    expression_node out;
    out.is = kind::characters;
    out.set = scalar_values(set);
    return out;
  }
  static expression_node character(std::uint32_t code) { return characters({{code, code}}); }

  [[nodiscard]] expression_node term() {
    const std::size_t begin = at_;
    const std::uint32_t code = codes_[at_++];
    expression_node out;
    switch (code) {
    case '^':
    case '$':
      return anchor(code == '^' ? kind::start : kind::end);
    case '(':
      if (follows("?=") || follows("?!") || follows("?<=") || follows("?<!")) {
        return look(begin);
      }
      group(begin);
      out = choice();
      if (!take(')')) {
        fail("this group is not closed", begin);
      }
      break;
    case '.':
      out = characters(complement({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}));
      break;
    case '[':
      out = characters(char_class(begin));
      break;
    case '\\':
      if (peek() == 'b' || peek() == 'B') {
        return boundary(begin);
      }
      out = escape(begin);
      break;
    case '*':
    case '+':
    case '?':
      fail(quoted(code) + " repeats nothing", begin);
    case '{': {
      --at_;
      std::uint32_t least = 0;
      std::uint32_t most = 0;
      if (take_count(least, most)) {
        fail("a count repeats nothing", begin);
      }
      ++at_;
      loose("'{' must be escaped", begin);
      out = character(code);
      break;
    }
    case '}':
    case ']':
      loose(quoted(code) + " must be escaped", begin);
      out = character(code);
      break;
    default:
      out = character(code);
    }
    return repeated(std::move(out));
  }
  // Behind the parenthesis.
  void group(std::size_t begin) {
    if (!take('?')) {
      return;
    }
    if (take('<')) {
      while (peek() != no_code && peek() != '>') {
        ++at_;
      }
      if (!take('>')) {
        fail("the name of this group does not end", begin);
      }
    } else if (!take(':')) {
      fail("a group cannot begin with '(?' and " + quoted(peek()), begin);
    }
  }
  // Behind the parenthesis.
  [[nodiscard]] expression_node look(std::size_t begin) {
    ++at_;
    const bool is_behind = take('<');
    const bool is_negated = codes_[at_++] == '!';
    if (!is_behind && levels_behind_ > 0) {
      fail("look-ahead in look-behind is not supported", begin);
    }
    levels_behind_ += is_behind ? 1 : 0;
    expression_node body = choice();
    levels_behind_ -= is_behind ? 1 : 0;
    if (!take(')')) {
      fail("this group is not closed", begin);
    }
    refuse_count("a look-ahead or look-behind cannot be repeated");
    return look_at(std::move(body), is_behind, is_negated);
  }
  static expression_node look_at(expression_node body, bool is_behind, bool is_negated) {
    expression_node out;
    out.is = kind::look;
    out.has_anchors = out.has_looks = true;
    out.is_behind = is_behind;
    out.is_negated = is_negated;
    out.parts.push_back(std::move(body));
    return out;
  }
  // \b or \B: whether one of the characters before and after is of a word, or both or none.
  [[nodiscard]] expression_node boundary(std::size_t begin) {
    const bool is_negated = codes_[at_++] == 'B';
    if (levels_behind_ > 0) {
      fail("word boundaries in look-behind are not supported", begin);
    }
    refuse_count("a word boundary cannot be repeated");
    expression_node out;
    out.is = kind::choice;
    for (const bool is_word : {true, false}) {
      expression_node both;
      add_part(both, look_at(characters(named_class('w')), true, !is_word));
      add_part(both, look_at(characters(named_class('w')), false, is_word != is_negated));
      add_part(out, std::move(both));
    }
    return out;
  }
  // Refuses a quantifier here.
  void refuse_count(const std::string& why) {
    const std::size_t begin = at_;
    std::uint32_t least = 0;
    std::uint32_t most = 0;
    if (peek() == '*' || peek() == '+' || peek() == '?' ||
        (peek() == '{' && take_count(least, most))) {
      fail(why, begin);
    }
  }
  [[nodiscard]] expression_node anchor(kind is) {
    refuse_count("an anchor cannot be repeated");
    if (is == kind::end && levels_behind_ > 0) {
      fail("'$' in look-behind is not supported", at_ - 1);
    }
    expression_node out;
    out.is = is;
    out.has_anchors = true;
    return out;
  }
  [[nodiscard]] expression_node repeated(expression_node part) {
    std::uint32_t least = 1;
    std::uint32_t most = 1;
    const std::size_t begin = at_;
    if (take('*')) {
      least = 0;
      most = no_most;
    } else if (take('+')) {
      most = no_most;
    } else if (take('?')) {
      least = 0;
    } else if (peek() != '{' || !take_count(least, most)) {
      return part;
    }
    take('?');  // lazy
    if (most < least) {
      fail("the counts are in the wrong order", begin);
    }
    if (peek() == '*' || peek() == '+' || peek() == '?') {
      fail(quoted(peek()) + " repeats a repetition");
    }
    const std::size_t second = at_;
    std::uint32_t a = 0;
    std::uint32_t b = 0;
    if (peek() == '{' && take_count(a, b)) {
      fail("a count repeats a repetition", second);
    }
    if (least == 1 && most == 1) {
      return part;
    }
    return repetition(std::move(part), least, most);
  }
  // X{a,b}{c,d} is X{ac,bd} if no number between is left out.
  static expression_node repetition(expression_node part, std::uint32_t least, std::uint32_t most) {
    if (part.is == kind::repetition && !part.has_anchors) {
      const std::uint64_t a = part.least;
      const std::uint64_t b = part.most;
      const bool is_gapless = least == most || (least > 0 && part.most == no_most) ||
                              (least + 1ULL) * a <= least * b + 1;
      const std::uint64_t low = a * least;
      const std::uint64_t high = b == 0 || most == 0                       ? 0
                                 : part.most == no_most || most == no_most ? no_most
                                                                           : b * most;
      if (is_gapless && low < no_most &&
          (high < no_most || part.most == no_most || most == no_most)) {
        part.least = static_cast<std::uint32_t>(low);
        part.most = static_cast<std::uint32_t>(high);
        return part;
      }
    }
    expression_node out;
    out.is = kind::repetition;
    out.least = least;
    out.most = most;
    add_part(out, std::move(part));
    return out;
  }
  // {n}, {n,} or {n,m}; otherwise takes nothing.
  [[nodiscard]] bool take_count(std::uint32_t& least, std::uint32_t& most) {
    std::size_t i = at_ + 1;
    const auto take_number = [&](std::uint32_t& number) {
      const std::size_t first = i;
      std::uint64_t value = 0;
      for (; i < codes_.size() && is_digit(codes_[i]); ++i) {
        value = std::min<std::uint64_t>(value * 10 + (codes_[i] - '0'), no_most - 1);
      }
      number = static_cast<std::uint32_t>(value);
      return i > first;
    };
    std::uint32_t low = 0;
    if (!take_number(low)) {
      return false;
    }
    std::uint32_t high = low;
    if (i < codes_.size() && codes_[i] == ',') {
      ++i;
      if (!take_number(high)) {
        high = no_most;
      }
    }
    if (i >= codes_.size() || codes_[i] != '}') {
      return false;
    }
    least = low;
    most = high;
    at_ = i + 1;
    return true;
  }

  // \d \w \s and their complements.
  static bool is_class_name(std::uint32_t code) {
    return code < 0x80 &&
           std::string_view("dDsSwW").find(static_cast<char>(code)) != std::string_view::npos;
  }
  static code_set named_class(std::uint32_t name) {
    code_set set;
    switch (name | 0x20U) {
    case 'd':
      set = {{'0', '9'}};
      break;
    case 'w':
      set = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
      break;
    default:
      set = {{9, 13},
             {32, 32},
             {0xa0, 0xa0},
             {0x1680, 0x1680},
             {0x2000, 0x200a},
             {0x2028, 0x2029},
             {0x202f, 0x202f},
             {0x205f, 0x205f},
             {0x3000, 0x3000},
             {0xfeff, 0xfeff}};
    }
    return (name & 0x20U) == 0 ? complement(set) : set;
  }
  // Behind \p or \P.
  [[nodiscard]] code_set property(bool is_negated, std::size_t begin) {
    if (!take('{')) {
      fail("\\p needs a name in braces", begin);
    }
    std::string name;
    while (peek() != no_code && peek() != '}') {
      name += utf8_of(codes_[at_++]);
      if (name.size() > 80) {
        fail("the name of this property is longer than any", begin);
      }
    }
    if (!take('}')) {
      fail("the name of this property does not end", begin);
    }
    std::string_view key = name;
    for (const std::string_view prefix : {"General_Category=", "gc="}) {
      key = std::string_view(name).starts_with(prefix) ? key.substr(prefix.size()) : key;
    }
    const code_set set = general_category(key);
    if (set.empty()) {
      fail("\\p{" + name +
               "} is not a general category; scripts and other properties are not supported",
           begin);
    }
    return is_negated ? complement(set) : set;
  }
  [[nodiscard]] std::uint32_t hexadecimal(std::size_t count, std::size_t begin) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t c = peek();
      const std::uint32_t lower = c | 0x20U;
      if (!is_digit(c) && (lower < 'a' || lower > 'f')) {
        fail("expected " + std::to_string(count) + " hexadecimal digits", begin);
      }
      value = value * 16 + (is_digit(c) ? c - '0' : lower - 'a' + 10);
      ++at_;
    }
    return value;
  }
  // Behind \u.
  [[nodiscard]] std::uint32_t unicode_escape(std::size_t begin) {
    if (take('{')) {
      std::uint32_t value = 0;
      const std::size_t first = at_;
      while (peek() != no_code && peek() != '}') {
        value = value * 16 + hexadecimal(1, begin);
        if (value > 0x10ffffU) {
          fail("a code point is at most 10FFFF", begin);
        }
      }
      if (at_ == first || !take('}')) {
        fail("\\u{ needs digits and '}'", begin);
      }
      return value;
    }
    const std::uint32_t code = hexadecimal(4, begin);
    if (code >> 10U == 0x36U && follows("\\u") && peek(2) != '{') {  // the first half of a pair
      const std::size_t behind = at_;
      at_ += 2;
      const std::uint32_t low = hexadecimal(4, begin);
      if (low >> 10U == 0x37U) {
        return 0x10000U + ((code & 0x3ffU) << 10U) + (low & 0x3ffU);
      }
      at_ = behind;
    }
    return code;
  }
  // The character behind a backslash; the caller has seen to classes.
  [[nodiscard]] std::uint32_t escaped_character(std::size_t begin, bool is_in_class) {
    if (at_ >= codes_.size()) {
      fail("'\\' escapes nothing", begin);
    }
    const std::uint32_t code = codes_[at_++];
    switch (code) {
    case 't':
      return '\t';
    case 'n':
      return '\n';
    case 'v':
      return '\v';
    case 'f':
      return '\f';
    case 'r':
      return '\r';
    case '0':
      if (is_digit(peek())) {
        fail("octal escapes are not supported", begin);
      }
      return 0;
    case 'c':
      if (!is_letter(peek())) {
        fail("\\c needs a letter", begin);
      }
      return codes_[at_++] & 31U;
    case 'x':
      return hexadecimal(2, begin);
    case 'u':
      return unicode_escape(begin);
    case 'k':
      fail("back references (\\k) are not supported", begin);
    default:
      break;
    }
    if (code < 0x80 && std::string_view("^$\\.*+?()[]{}|/").find(static_cast<char>(code)) !=
                           std::string_view::npos) {
      return code;
    }
    if (code == '-' && is_in_class) {
      return code;
    }
    if (is_digit(code)) {
      fail(is_in_class ? "octal escapes are not supported"
                       : "back references (\\" + utf8_of(code) + ") are not supported",
           begin);
    }
    if (is_letter(code)) {
      fail("unknown escape \\" + utf8_of(code), begin);
    }
    loose("\\" + utf8_of(code) + " is not an escape", begin);
    return code;
  }
  [[nodiscard]] expression_node escape(std::size_t begin) {
    const std::uint32_t code = peek();
    if (is_class_name(code)) {
      ++at_;
      return characters(named_class(code));
    }
    if (code == 'p' || code == 'P') {
      ++at_;
      return characters(property(code == 'P', begin));
    }
    return character(escaped_character(begin, false));
  }
  // A character of a class, or a class in it, which is added to `set`.
  [[nodiscard]] std::uint32_t class_atom(std::size_t begin_of_class, code_set& set) {
    const std::size_t begin = at_;
    if (at_ >= codes_.size()) {
      fail("this class is not closed", begin_of_class);
    }
    const std::uint32_t code = codes_[at_++];
    if (code != '\\') {
      return code;
    }
    const std::uint32_t name = peek();
    if (is_class_name(name) || name == 'p' || name == 'P') {
      ++at_;
      const code_set more = is_class_name(name) ? named_class(name) : property(name == 'P', begin);
      set.insert(set.end(), more.begin(), more.end());
      return no_code;
    }
    if (name == 'b') {
      ++at_;
      return '\b';
    }
    if (name == 'B') {
      fail("\\B is not a character", begin);
    }
    return escaped_character(begin, true);
  }
  // Behind the bracket.
  [[nodiscard]] code_set char_class(std::size_t begin) {
    const bool is_negated = take('^');
    code_set set;
    const auto add = [&set](std::uint32_t first, std::uint32_t last) {
      if (first != no_code && last != no_code) {
        set.emplace_back(first, last);
      }
    };
    while (!take(']')) {
      const std::size_t begin_of_range = at_;
      const std::uint32_t first = class_atom(begin, set);
      if (peek() != '-' || peek(1) == ']' || peek(1) == no_code) {
        add(first, first);
        continue;
      }
      ++at_;
      const std::uint32_t last = class_atom(begin, set);
      if (first == no_code || last == no_code) {
        loose("a range cannot end in a class", begin_of_range);
        add('-', '-');
        add(first, first);
        add(last, last);
      } else if (last < first) {
        fail("the range is in the wrong order", begin_of_range);
      } else {
        add(first, last);
      }
    }
    set = normal(set);
    return is_negated ? complement(set) : set;
  }

  std::vector<std::uint32_t> codes_;
  std::size_t at_ = 0;
  int levels_ = 0;
  int levels_behind_ = 0;  // of look-behind
  bool is_strict_;
};

}  // namespace UNMASK_NAMESPACE::detail::languages
