// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/language/budget.hpp>
#include <unmask/language/code_points.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace UNMASK_NAMESPACE::detail::languages {

/// The right side of a rule, or a part of it.
struct grammar_node {
  enum class kind : std::uint8_t {
    characters,  ///< One character of `set`.
    sequence,    ///< All of `parts`, one after the other.
    choice,      ///< One of `parts`.
    repetition,  ///< parts[0], `least` to `most` times.
    call,        ///< Texts of the rule of number `rule`.
  };
  kind is = kind::sequence;
  code_set set;
  std::vector<grammar_node> parts;
  std::uint32_t least = 0;
  std::uint32_t most = 0;
  std::uint32_t rule = 0;
};

/// A rule.
struct grammar_rule {
  std::string name;
  grammar_node body;
  bool is_defined = false;
  std::size_t used_at = 0;  ///< Where its name is first.
};

/// Reads a grammar in the notation of llama.cpp and of xgrammar, which differ in little: a rule
/// ends in front of a name with ::=, names may have dots where such a rule is defined, and \x has
/// two digits, since one takes no more and the other takes all.
class grammar_reader {
 public:
  grammar_reader(std::string_view text, budget& left)
      : left_(left) {
    for (std::size_t i = 0; i < text.size();) {
      codes_.push_back(next_code(text, i));
    }
    find_dotted_names();
  }

  /// The rules; the first is `root`. Throws refused with the line and the column.
  [[nodiscard]] std::vector<grammar_rule> read(std::string_view root) {
    rules_.push_back({std::string(root), {}, false, 0});
    numbers_.emplace(root, 0);
    for (blank(); at_ < codes_.size(); blank()) {
      read_rule();
    }
    for (const grammar_rule& rule : rules_) {
      if (!rule.is_defined) {
        fail(&rule == rules_.data() ? "there is no rule '" + rule.name + "', the option `root`"
                                    : "there is no rule '" + rule.name + "'",
             rule.used_at);
      }
    }
    return std::move(rules_);
  }

 private:
  using kind = grammar_node::kind;
  static constexpr int most_levels = 200;
  static constexpr std::uint32_t no_most = 0xffffffffU;

  [[noreturn]] void fail(const std::string& what, std::size_t at) const {
    std::size_t line = 1;
    std::size_t column = 1;
    for (std::size_t i = 0; i < std::min(at, codes_.size()); ++i) {
      const bool is_end = codes_[i] == '\n' || (codes_[i] == '\r' && code(i + 1) != '\n');
      line += is_end ? 1 : 0;
      column = is_end ? 1 : column + 1;
    }
    refusal why;
    why.message =
        "line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + what;
    why.line = line;
    why.column = column;
    throw refused(std::move(why));
  }
  [[noreturn]] void fail(const std::string& what) const { fail(what, at_); }
  [[nodiscard]] std::uint32_t code(std::size_t at) const {
    return at < codes_.size() ? codes_[at] : no_code;
  }
  [[nodiscard]] std::uint32_t peek(std::size_t ahead = 0) const { return code(at_ + ahead); }
  bool take(char wanted) {
    const bool is_there = peek() == static_cast<unsigned char>(wanted);
    at_ += is_there ? 1 : 0;
    return is_there;
  }
  static bool is_digit(std::uint32_t c) { return c >= '0' && c <= '9'; }
  static bool is_name(std::uint32_t c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
  }
  static std::string quoted(std::uint32_t c) {
    return c == no_code ? "the end" : c < ' ' ? "the end of the line" : "'" + utf8_of(c) + "'";
  }
  // Behind spaces, ends of lines and comments.
  [[nodiscard]] std::size_t behind_blanks(std::size_t at) const {
    for (;; ++at) {
      const std::uint32_t c = code(at);
      if (c == '#') {
        while (code(at + 1) != no_code && code(at + 1) != '\n' && code(at + 1) != '\r') {
          ++at;
        }
      } else if (c != ' ' && c != '\t' && c != '\n' && c != '\r') {
        return at;
      }
    }
  }
  void blank() { at_ = behind_blanks(at_); }
  [[nodiscard]] bool is_assigned(std::size_t at) const {
    at = behind_blanks(at);
    return code(at) == ':' && code(at + 1) == ':' && code(at + 2) == '=';
  }

  // Names with dots are rules where they are defined, and otherwise names around any character.
  void find_dotted_names() {
    for (std::size_t i = 0; i + 1 < codes_.size(); ++i) {
      left_.spend();
      if (codes_[i] != ':' || codes_[i + 1] != ':') {
        continue;
      }
      std::size_t end = i;
      while (end > 0 && (codes_[end - 1] == ' ' || codes_[end - 1] == '\t')) {
        --end;
      }
      std::size_t begin = end;
      bool has_dot = false;
      while (begin > 0 && (is_name(codes_[begin - 1]) || codes_[begin - 1] == '.')) {
        has_dot = codes_[--begin] == '.' || has_dot;
      }
      if (has_dot) {
        dotted_.insert(slice(begin, end));
      }
    }
  }
  [[nodiscard]] std::string slice(std::size_t begin, std::size_t end) const {
    std::string out;
    for (std::size_t i = begin; i < end; ++i) {
      out += utf8_of(codes_[i]);
    }
    return out;
  }
  // The end of a name at a place; the place itself where there is none.
  [[nodiscard]] std::size_t behind_name(std::size_t at) const {
    std::size_t end = at;
    if (!dotted_.empty()) {
      while (is_name(code(end)) || code(end) == '.') {
        ++end;
      }
      if (dotted_.count(slice(at, end)) != 0) {
        return end;
      }
    }
    for (end = at; is_name(code(end));) {
      ++end;
    }
    return end;
  }
  std::uint32_t number_of(const std::string& name, std::size_t at) {
    const auto [found, is_new] =
        numbers_.try_emplace(name, static_cast<std::uint32_t>(rules_.size()));
    if (is_new) {
      rules_.push_back({name, {}, false, at});
    }
    return found->second;
  }

  void read_rule() {
    const std::size_t begin = at_;
    const std::size_t end = behind_name(begin);
    if (end == begin) {
      fail("expected the name of a rule, got " + quoted(peek()));
    }
    const std::string name = slice(begin, end);
    at_ = end;
    if (peek() == '[') {
      fail("options of rules are not supported");
    }
    blank();
    if (!is_assigned(at_)) {
      fail("expected '::=' behind the name of a rule, got " + quoted(peek()));
    }
    at_ += 3;
    blank();
    const std::uint32_t number = number_of(name, begin);
    if (rules_[number].is_defined) {
      fail("the rule '" + name + "' is defined twice", begin);
    }
    rules_[number].is_defined = true;
    grammar_node body = choice();
    if (peek() == ')') {
      fail("')' closes no group");
    }
    rules_[number].body = std::move(body);
  }
  [[nodiscard]] grammar_node choice() {
    if (++levels_ > most_levels + 1) {  // the whole is the first
      fail("groups are nested over " + std::to_string(most_levels) + " deep");
    }
    grammar_node out;
    out.is = kind::choice;
    do {
      blank();
      out.parts.push_back(sequence());
    } while (take('|'));
    --levels_;
    return only_part(std::move(out));
  }
  [[nodiscard]] grammar_node sequence() {
    grammar_node out;
    while (at_ < codes_.size() && peek() != '|' && peek() != ')') {
      if (begins_rule()) {
        break;
      }
      grammar_node part = repeated(item());
      // The empty text is left out, so that its neighbour is the beginning or the end.
      if (part.is != kind::sequence || !part.parts.empty()) {
        out.parts.push_back(std::move(part));
      }
    }
    return only_part(std::move(out));
  }
  // Whether the next name is that of a rule, at the beginning of a line and in front of ::=.
  [[nodiscard]] bool begins_rule() const {
    std::size_t end = behind_name(at_);
    std::size_t line = at_;
    while (line > 0 && (codes_[line - 1] == ' ' || codes_[line - 1] == '\t')) {
      --line;
    }
    if (end == at_ || (line > 0 && codes_[line - 1] != '\n' && codes_[line - 1] != '\r')) {
      return false;
    }
    if (code(end) == '[') {  // options of a rule
      while (code(end) != ']' && code(end) != '\n' && code(end) != no_code) {
        ++end;
      }
      end = code(end) == ']' ? end + 1 : end;
    }
    return is_assigned(end);
  }
  static grammar_node only_part(grammar_node of) {
    if (of.parts.size() != 1) {
      return of;
    }
    grammar_node part = std::move(of.parts[0]);
    return part;
  }
  static grammar_node characters(code_set set) {
    grammar_node out;
    out.is = kind::characters;
    out.set = std::move(set);
    return out;
  }

  [[nodiscard]] grammar_node item() {
    left_.check_positions(++count_);
    const std::size_t begin = at_;
    if (const std::size_t end = behind_name(at_); end > at_) {
      at_ = end;
      refuse_macro(begin, end);
      grammar_node out;
      out.is = kind::call;
      out.rule = number_of(slice(begin, end), begin);
      return out;
    }
    const std::uint32_t c = codes_[at_++];
    switch (c) {
    case '"':
      return literal(begin);
    case '[':
      return char_class(begin);
    case '.':
      return characters(complement({}));
    case '(': {
      if (peek() == '=') {
        fail("look-ahead (= is not supported", begin);
      }
      grammar_node out = choice();
      if (!take(')')) {
        fail("this group is not closed", begin);
      }
      return out;
    }
    case '<':
    case '!':
      fail("tokens (<...>) are not supported: write their text", begin);
    case '*':
    case '+':
    case '?':
    case '{':
      fail(quoted(c) + " repeats nothing", begin);
    default:
      fail("expected a text, a class, a group or the name of a rule, got " + quoted(c), begin);
    }
  }
  void refuse_macro(std::size_t begin, std::size_t end) const {
    const std::string name = slice(begin, end);
    for (const std::string_view macro :
         {"TagDispatch", "Token", "ExcludeToken", "TokenTagDispatch", "Regex", "Substring"}) {
      if (name == macro && code(behind_blanks(end)) == '(' && numbers_.count(name) == 0) {
        fail("the macro " + name + " is not supported", begin);
      }
    }
  }
  [[nodiscard]] grammar_node literal(std::size_t begin) {
    grammar_node out;
    while (!take('"')) {
      if (peek() == no_code) {
        fail("this text is not closed", begin);
      }
      left_.check_positions(++count_);
      const std::uint32_t c = character();
      out.parts.push_back(characters({{c, c}}));
    }
    return only_part(std::move(out));
  }
  [[nodiscard]] grammar_node char_class(std::size_t begin) {
    const bool is_negated = take('^');
    code_set set;
    while (!take(']')) {
      if (peek() == no_code) {
        fail("this class is not closed", begin);
      }
      const std::size_t at = at_;
      const std::uint32_t first = character();
      std::uint32_t last = first;
      if (peek() == '-' && peek(1) != ']' && peek(1) != no_code) {
        ++at_;
        last = character();
        if (last < first) {
          fail("the range is in the wrong order", at);
        }
      }
      left_.spend();
      set.emplace_back(first, last);
    }
    if (set.empty() && !is_negated) {
      fail("this class has no character", begin);
    }
    set = scalar_values(set);
    return characters(is_negated ? complement(set) : set);
  }
  // A character of a text or a class, perhaps escaped.
  [[nodiscard]] std::uint32_t character() {
    const std::size_t begin = at_;
    if (codes_[at_++] != '\\') {
      return codes_[begin];
    }
    const std::uint32_t name = peek();
    ++at_;
    static constexpr std::string_view names = "nrtbfav0e";
    static constexpr std::string_view values("\n\r\t\b\f\a\v\0\x1b", 9);
    if (name == 'x' || name == 'u' || name == 'U') {
      return hexadecimal(name == 'x' ? 2 : name == 'u' ? 4 : 8, begin);
    }
    if (name < 0x80 && names.find(static_cast<char>(name)) != std::string_view::npos) {
      return static_cast<unsigned char>(values[names.find(static_cast<char>(name))]);
    }
    if (name < 0x80 && std::string_view("\"'\\/?^$.*+()[]{}|-").find(static_cast<char>(name)) !=
                           std::string_view::npos) {
      return name;
    }
    fail(name == no_code ? "'\\' escapes nothing" : "unknown escape \\" + utf8_of(name), begin);
  }
  [[nodiscard]] std::uint32_t hexadecimal(int count, std::size_t begin) {
    const auto digit_at = [this](std::size_t at) -> std::uint32_t {
      const std::uint32_t c = code(at);
      const std::uint32_t lower = c | 0x20U;
      return is_digit(c) ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 16;
    };
    std::uint64_t value = 0;
    for (int i = 0; i < count; ++i, ++at_) {
      if (digit_at(at_) == 16) {
        fail("expected " + std::to_string(count) + " hexadecimal digits", begin);
      }
      value = value * 16 + digit_at(at_);
    }
    if (count == 2 && digit_at(at_) != 16) {
      fail("\\x has two digits, and others read all that follow as one number: write \\u or \\U",
           begin);
    }
    if (value > 0x10ffffU || (value >= 0xd800U && value <= 0xdfffU)) {
      fail("this is not a character of Unicode", begin);
    }
    return static_cast<std::uint32_t>(value);
  }

  [[nodiscard]] grammar_node repeated(grammar_node part) {
    constexpr int most_repetitions = 8;
    blank();
    for (int i = 0;; ++i, blank()) {
      const std::size_t begin = at_;
      std::uint32_t least = 0;
      std::uint32_t most = no_most;
      if (take('+')) {
        least = 1;
      } else if (take('?')) {
        most = 1;
      } else if (take('{')) {
        counts(least, most);
      } else if (!take('*')) {
        return part;
      }
      if (most < least) {
        fail("the counts are in the wrong order", begin);
      }
      if (i == most_repetitions) {
        fail("over " + std::to_string(most_repetitions) + " repetitions of one another", begin);
      }
      grammar_node out;
      out.is = kind::repetition;
      out.least = least;
      out.most = most;
      out.parts.push_back(std::move(part));
      part = std::move(out);
    }
  }
  void counts(std::uint32_t& least, std::uint32_t& most) {
    const auto number = [this] {
      blank();
      if (!is_digit(peek())) {
        fail("expected a count, got " + quoted(peek()));
      }
      std::uint64_t value = 0;
      for (; is_digit(peek()); ++at_) {
        value = std::min<std::uint64_t>(value * 10 + (peek() - '0'), no_most - 1);
      }
      blank();
      return static_cast<std::uint32_t>(value);
    };
    least = number();
    most = least;
    if (take(',')) {
      blank();
      most = peek() == '}' ? no_most : number();
    }
    if (!take('}')) {
      fail("expected '}' behind a count, got " + quoted(peek()));
    }
  }

  budget& left_;
  std::vector<std::uint32_t> codes_;
  std::size_t at_ = 0;
  std::size_t count_ = 0;
  int levels_ = 0;
  std::vector<grammar_rule> rules_;
  std::map<std::string, std::uint32_t, std::less<>> numbers_;
  std::set<std::string> dotted_;
};

}  // namespace UNMASK_NAMESPACE::detail::languages
