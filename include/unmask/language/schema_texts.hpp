// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/language/decimal.hpp>
#include <unmask/language/expression_compiler.hpp>
#include <unmask/language/operations.hpp>
#include <unmask/language/schema.hpp>
#include <unmask/language/schema_document.hpp>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace UNMASK_NAMESPACE::detail::languages {

/// An automaton that several parts of a compilation share.
using shared_automaton = std::shared_ptr<const automaton>;

/// Whether a text is a string of an automaton over code points.
[[nodiscard]] inline bool accepts_codes(const automaton& a, std::string_view text) {
  std::uint32_t state = a.empty() ? dead_state : a.start;
  for (std::size_t i = 0; i < text.size() && state != dead_state;) {
    state = a.after(state, next_code(text, i));
  }
  return state != dead_state && a.accepting[state] != 0;
}

/// Expression of a `format`, or nullptr. Each is the RFC's or a part of it: what it has, every
/// validator takes.
struct known_format {
  std::string expression;
  bool is_exact = false;  ///< Whether it is the whole format, so that `not` may be kept.
};

/// Regular expressions that every engine reads: characters, classes, groups in no group, counts.
[[nodiscard]] inline std::string regular_expressions() {
  const std::string one = "([A-Za-z0-9_ @:,;/-]|\\.|\\\\[dDwWsS.]|"
                          "\\[\\^?(a-z|A-Z|0-9|[A-Za-z0-9_.])+-?\\])";
  const std::string times = "([*+?]|\\{([1-9]|[0-9],[1-9][0-9]|[0-9],)\\})?";
  const std::string group = "\\((\\?:)?(" + one + times + ")+(\\|(" + one + times + ")+)*\\)";
  return "\\^?((" + one + "|" + group + ")" + times + ")*\\$?";
}

[[nodiscard]] inline const std::map<std::string, known_format, std::less<>>& known_formats() {
  static const std::map<std::string, known_format, std::less<>> all = [] {
    const std::string day =
        "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|"
        "02-(0[1-9]|1[0-9]|2[0-8]))";
    const std::string fourth = "(0[48]|[2468][048]|[13579][26])";
    // A year of 1 or later: there are validators that have no year 0.
    const std::string date = "((000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})-" + day +
                             "|([0-9]{2}" + fourth + "|([2468][048]|[13579][26]|0[48])00)-02-29)";
    const std::string time = "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?"
                             "(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";
    // Labels of at most 61 characters without -- ; at most 4 of them.
    const std::string label = "[A-Za-z0-9](-?[A-Za-z0-9]){0,30}";
    const std::string host = label + "(\\." + label + "){0,3}";
    const std::string octet = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
    const std::string v4 = octet + "(\\." + octet + "){3}";
    const std::string group = "[0-9A-Fa-f]{1,4}";
    std::string v6 = group + "(:" + group + "){7}";
    for (int n = 0; n <= 6; ++n) {
      const std::string before =
          n > 0 ? group + "(:" + group + "){0," + std::to_string(n - 1) + "}" : "";
      const std::string after =
          n < 6 ? group + "(:" + group + "){0," + std::to_string(5 - n) + "}" : "";
      v6 += "|(" + before + ")?::(" + after + ")?";
    }
    const std::string mark = "[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2}";
    const std::string no_colon = "[A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2}";
    const std::string query = "(\\?(" + mark + "|[/?])*)?(#(" + mark + "|[/?])*)?";
    const std::string path = "(/(" + mark + ")*)*";
    // With a host, or a path that has something behind the scheme, as in urn: and mailto:.
    const std::string uri = "[A-Za-z][A-Za-z0-9+.-]*:(//" + host + "(:[1-9][0-9]{0,3})?" + path +
                            "|/?(" + mark + ")+" + path + ")" + query;
    const std::string relative =
        "(/((" + mark + ")+" + path + ")?|(" + no_colon + ")+" + path + ")?" + query;
    const std::string pointer = "(/([^/~]|~[01])*)*";
    const std::string mailbox = "[A-Za-z0-9]([A-Za-z0-9_+-]|\\.[A-Za-z0-9_+-]){0,31}@" + host;
    const std::string days = "([0-9]+D|[0-9]+M([0-9]+D)?|[0-9]+Y([0-9]+M([0-9]+D)?)?)";
    const std::string hours = "T([0-9]+H([0-9]+M([0-9]+S)?)?|[0-9]+M([0-9]+S)?|[0-9]+S)";
    const std::string braces = "\\{[A-Za-z0-9_]+(,[A-Za-z0-9_]+)*\\}";
    return std::map<std::string, known_format, std::less<>>{
        {"date", {date, false}},
        {"time", {time, false}},
        {"date-time", {date + "T" + time, false}},
        {"duration", {"P(" + days + "(" + hours + ")?|" + hours + "|[0-9]+W)", false}},
        {"uuid", {"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", true}},
        {"email", {mailbox, false}},
        {"idn-email", {mailbox, false}},
        {"hostname", {host, false}},
        {"idn-hostname", {host, false}},
        {"ipv4", {v4, true}},
        {"ipv6", {v6, false}},
        {"uri", {uri, false}},
        {"iri", {uri, false}},
        {"url", {uri, false}},
        {"uri-reference", {uri + "|" + relative, false}},
        {"iri-reference", {uri + "|" + relative, false}},
        {"uri-template", {"(https?://" + host + ")?(/(" + no_colon + "|" + braces + ")+)+", false}},
        {"json-pointer", {pointer, true}},
        {"relative-json-pointer", {"(0|[1-9][0-9]*)(#|" + pointer + ")", true}},
        {"regex", {regular_expressions(), false}},
        {"byte",
         {"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?",
          false}},
        {"color", {"#[0-9A-Fa-f]{6}", false}},
    };
  }();
  return all;
}

/// Strings and numbers of a schema, over code points and over bytes.
class schema_texts {
 public:
  schema_texts(schema_document& document, const language::schema_options& options)
      : document_(document)
      , options_(options)
      , left_(document.left()) {}

  [[nodiscard]] static shared_automaton share(automaton a) {
    return std::make_shared<const automaton>(std::move(a));
  }
  /// Every text.
  [[nodiscard]] static const shared_automaton& all_texts() {
    static const shared_automaton all = [] {
      automaton a;
      add_state(a, true);
      a.runs[0] = runs_of_any_code(0);
      return share(std::move(a));
    }();
    return all;
  }
  /// Texts with a match of the expression at `at`.
  [[nodiscard]] shared_automaton pattern(schema_ptr at, const std::string& expression) {
    shared_automaton& known = patterns_[expression];
    if (known == nullptr) {
      known = document_.at_place(
          at, [&] { return share(expression_codes(expression, true, false, left_)); });
    }
    return known;
  }
  /// Texts of a format, or nullptr where the compiler does not have it.
  [[nodiscard]] shared_automaton format(schema_ptr at, const std::string& name) {
    const auto found = known_formats().find(name);
    if (found == known_formats().end()) {
      return nullptr;
    }
    shared_automaton& known = formats_[name];
    if (known == nullptr) {
      known = document_.at_place(at, [&] {
        return share(expression_codes(found->second.expression, false, true, left_));
      });
    }
    return known;
  }
  /// Texts that another automaton does not have.
  [[nodiscard]] shared_automaton complement_of(const shared_automaton& of) {
    shared_automaton& known = complements_[of];
    if (known == nullptr) {
      known = share(product(*all_texts(), *of, combination::first_only, left_));
    }
    return known;
  }
  /// One text.
  [[nodiscard]] static shared_automaton word(std::string_view text) {
    automaton a;
    std::uint32_t at = add_state(a);
    for (std::size_t i = 0; i < text.size();) {
      const std::uint32_t code = next_code(text, i);
      const std::uint32_t next = add_state(a);
      a.runs[at] = {{code, code, next}};
      at = next;
    }
    a.accepting[at] = 1;
    return share(std::move(a));
  }
  /// Some texts: the smallest automaton, state by state in the order of the sorted texts.
  /// Source: J. Daciuk et al., "Incremental construction of minimal acyclic finite-state automata",
  /// 2000. Cost: O(length of all texts), and no more states than the result and the longest text.
  [[nodiscard]] automaton words(std::vector<std::string> texts, bool as_codes) {
    std::sort(texts.begin(), texts.end());
    texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
    if (texts.empty()) {
      return {};
    }
    struct open_state {
      std::vector<run> runs;
      bool is_accepting = false;
    };
    automaton out;
    lists_of_numbers known;  // [states]
    std::vector<std::uint32_t> key;
    const auto close = [&](open_state& state) {
      key.assign(1, state.is_accepting ? 1U : 0U);
      for (const run& r : state.runs) {
        key.insert(key.end(), {r.first, r.last, r.next});
      }
      left_.spend(4 * key.size());
      const auto [name, is_new] = known.add(key);
      if (is_new) {
        add_state(out, state.is_accepting);
        out.runs.back() = std::move(state.runs);
        left_.check_states(out.states());
      }
      return name;
    };
    std::vector<open_state> path(1);
    std::vector<std::uint32_t> before;
    const auto close_to = [&](std::size_t depth) {
      while (path.size() > depth + 1) {
        const std::uint32_t closed = close(path.back());
        path.pop_back();
        run& last = path.back().runs.back();
        last.next = closed;
      }
    };
    for (const std::string& text : texts) {
      std::vector<std::uint32_t> symbols;
      for (std::size_t i = 0; i < text.size();) {
        symbols.push_back(as_codes ? next_code(text, i) : static_cast<unsigned char>(text[i++]));
      }
      left_.spend(symbols.size() + 1);
      std::size_t common = 0;
      while (common < std::min(before.size(), symbols.size()) &&
             before[common] == symbols[common]) {
        ++common;
      }
      close_to(common);
      for (std::size_t i = common; i < symbols.size(); ++i) {
        path.back().runs.push_back({symbols[i], symbols[i], 0});
        path.emplace_back();
      }
      path.back().is_accepting = true;
      before = std::move(symbols);
    }
    close_to(0);
    out.start = close(path[0]);
    for (std::vector<run>& runs : out.runs) {
      join(runs);
    }
    return out;
  }
  /// Texts of least .. most characters.
  [[nodiscard]] automaton lengths(std::uint64_t least, std::uint64_t most) {
    const bool is_endless = most >= schema_document::many;
    const std::uint64_t last = is_endless ? least : most;
    left_.check_states(static_cast<std::size_t>(last) + 1);
    automaton a;
    for (std::uint64_t i = 0; i <= last; ++i) {
      left_.spend();
      add_state(a, i >= least);
    }
    for (std::uint64_t i = 0; i <= last; ++i) {
      if (i < last || is_endless) {
        const auto next = static_cast<std::uint32_t>(i < last ? i + 1 : i);
        a.runs[i] = runs_of_any_code(next);
      }
    }
    return a;
  }
  /// A JSON string of a language over code points.
  [[nodiscard]] automaton json_bytes(const automaton& codes) {
    return bytes_of(codes, text_form::json_string, options_.unicode_escapes, left_);
  }
  /// Any JSON string.
  [[nodiscard]] const automaton& any_string() {
    if (any_string_ == nullptr) {
      any_string_ = share(json_bytes(*all_texts()));
    }
    return *any_string_;
  }
  /// Texts of numbers by an expression.
  [[nodiscard]] const automaton& number_text(const char* expression) {
    shared_automaton& known = numbers_[expression];
    if (known == nullptr) {
      known = share(expression_codes(expression, false, true, left_));
    }
    return *known;
  }

  /// Decimal texts without an exponent that compare with c as `mask` says: 1 below, 2 equal, 4
  /// above.
  [[nodiscard]] automaton compared(const decimal& c, unsigned mask) {
    if (c.exponent > 400 || c.exponent < -400 || c.digits.size() > 400) {
      throw refused("a bound has over 400 digits");
    }
    const std::string whole = c.whole();
    const std::string fraction = c.fraction();
    enum : std::uint8_t { at_start, in_whole, in_fraction };
    struct state {
      std::uint8_t phase = at_start;
      std::uint8_t order = 1;  // 0 below, 1 equal, 2 above so far
      std::uint32_t digits = 0;
      bool is_negative = false;
      auto operator<=>(const state&) const = default;
    };
    const auto order_of_digits = [](std::uint32_t digit, char other) -> std::uint8_t {
      const auto with = static_cast<unsigned char>(other);
      return digit < with ? 0 : digit > with ? 2 : 1;
    };
    const auto whole_order = [&](const state& s) -> std::uint8_t {
      return s.digits < whole.size() ? 0 : s.digits > whole.size() ? 2 : s.order;
    };
    const auto step = [&](state& s, std::uint32_t b) {
      if (b == '-') {
        const bool may = s.phase == at_start && !s.is_negative;
        s.is_negative = true;
        return may;
      }
      if (b == '.') {
        const bool may = s.phase == in_whole;
        s = {in_fraction, whole_order(s), 0, s.is_negative};
        return may;
      }
      if (s.phase != in_fraction) {
        s.phase = in_whole;
        if ((s.digits == 0 && b == '0') || s.digits > whole.size()) {
          return true;
        }
        if (s.digits == whole.size()) {
          s.order = 2;
        } else if (s.order == 1) {
          s.order = order_of_digits(b, whole[s.digits]);
        }
        ++s.digits;
        return true;
      }
      if (s.order == 1) {
        s.order = order_of_digits(b, s.digits < fraction.size() ? fraction[s.digits] : '0');
      }
      const auto size = static_cast<std::uint32_t>(fraction.size());
      s.digits = s.order != 1 ? 0 : std::min(s.digits + 1, size);
      return true;
    };
    const auto accepts = [&](const state& s) {
      if (s.phase == at_start) {
        return false;
      }
      std::uint8_t order = s.phase == in_whole ? whole_order(s) : s.order;
      if (order == 1 && s.phase == in_whole) {
        order = fraction.empty() ? 1 : 0;
      } else if (order == 1) {
        order = s.digits < fraction.size() ? 0 : 1;
      }
      if (c.is_zero()) {
        order = order == 1 ? 1 : s.is_negative ? 0 : 2;
      } else if (s.is_negative != c.is_negative) {
        order = s.is_negative ? 0 : 2;
      } else if (s.is_negative) {
        order = static_cast<std::uint8_t>(2 - order);
      }
      return (mask >> order & 1U) != 0;
    };
    return explore(state{}, symbols(), step, accepts, left_);
  }
  /// Decimal texts without an exponent of multiples of m.
  [[nodiscard]] automaton multiples(const decimal& m) {
    if (m.is_zero() || m.is_negative) {
      throw refused("must be above 0");
    }
    const std::uint64_t behind = m.exponent < 0 ? static_cast<std::uint64_t>(-m.exponent) : 0;
    std::uint64_t unit = 0;
    const bool is_short = m.whole_size() <= 9 && m.digits.size() <= 9 && behind <= 20;
    for (const char c : is_short ? m.digits : "") {
      unit = unit * 10 + static_cast<std::uint64_t>(c - '0');
    }
    for (std::int64_t i = 0; is_short && i < m.exponent; ++i) {
      unit *= 10;
    }
    if (!is_short || unit * (behind + 1) > 100'000) {
      throw refused("has too many digits for an automaton; write fewer");
    }
    struct state {
      std::uint8_t phase = 0;  // 1 behind a sign, 2 in the whole part, 3 in the fraction
      std::uint32_t rest = 0;
      std::uint32_t digits = 0;
      auto operator<=>(const state&) const = default;
    };
    const auto step = [&](state& s, std::uint32_t b) {
      if (b == '-') {
        return std::exchange(s.phase, std::uint8_t{1}) == 0;
      }
      if (b == '.') {
        return std::exchange(s.phase, std::uint8_t{3}) == 2;
      }
      s.phase = s.phase < 2 ? std::uint8_t{2} : s.phase;
      if (s.phase == 3) {
        if (s.digits == behind) {
          return b == '0';
        }
        ++s.digits;
      }
      s.rest = static_cast<std::uint32_t>((std::uint64_t{s.rest} * 10 + (b - '0')) % unit);
      return true;
    };
    const auto accepts = [&](const state& s) {
      std::uint64_t rest = s.rest;
      for (std::uint64_t i = s.digits; i < behind; ++i) {
        rest = rest * 10 % unit;
      }
      return s.phase >= 2 && rest == 0;
    };
    return explore(state{}, symbols(), step, accepts, left_);
  }

 protected:
  schema_document& document_;
  const language::schema_options& options_;
  budget& left_;

 private:
  static const std::vector<std::uint32_t>& symbols() {
    static const std::vector<std::uint32_t> all{
        '-', '.', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'};
    return all;
  }

  std::unordered_map<std::string, shared_automaton> patterns_;
  std::unordered_map<std::string, shared_automaton> formats_;
  std::unordered_map<std::string, shared_automaton> numbers_;
  std::unordered_map<shared_automaton, shared_automaton> complements_;
  shared_automaton any_string_;
};

}  // namespace UNMASK_NAMESPACE::detail::languages
