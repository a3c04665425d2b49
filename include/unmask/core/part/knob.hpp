// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/core/part/part.hpp>

#include <cstdio>
#include <limits>
#include <string>
#include <string_view>

/// Knobs: one description of a part's parameters, used by its check, by policy texts and their
/// help, and by bindings:
///
///     struct threshold {
///       float value = 0.9F;
///       static constexpr part_label label{"threshold", "every token that ..."};
///       static constexpr knob<threshold> knobs[] = {{"value", &threshold::value, within(0, 1)}};
///
/// Each knob is a name, a member and a range; its default is the member's initialiser. Everything
/// is optional: a part with `knobs` alone is checked; a rule that involves several knobs also needs
/// a `check(sequence_shape)`.
namespace UNMASK_NAMESPACE {

/// Name of a part, its type's in C++, in texts and in messages, and a line that describes it.
struct part_label {
  std::string_view name = {};   ///< Name of the type.
  std::string_view about = {};  ///< The part in one line.
};

/// Kinds of knobs.
enum class knob_kind : std::uint8_t {
  real,
  exact,   ///< a real of double precision
  whole,   ///< a whole number
  flag,    ///< true or false
  word,    ///< an enumerator, by its place in knob_text::words
  token,   ///< a token, no_token if none is given
  tokens,  ///< a list of tokens
  reals,   ///< a list of numbers
  file     ///< the name of a file, quoted
};

/// An interval of numbers. NaN is in no interval; infinity is in one without an upper end, unless
/// finite() excludes it.
struct knob_range {
  double least = -std::numeric_limits<double>::infinity();  ///< Lower end.
  double most = std::numeric_limits<double>::infinity();    ///< Upper end.
  bool without_least = false;  ///< the least value itself is out of range
  bool without_most = false;   ///< the largest value itself is out of range
  std::string_view unit = {};  ///< Unit, for messages.

  /// True if `x` is in the interval.
  [[nodiscard]] constexpr bool holds(double x) const {
    return (without_least ? x > least : x >= least) && (without_most ? x < most : x <= most);
  }
  /// Returns the interval up to and with `end`.
  [[nodiscard]] constexpr knob_range up_to(double end) const {
    return {least, end, without_least, false, unit};
  }
  /// Returns the interval up to `end`, without `end`.
  [[nodiscard]] constexpr knob_range below(double end) const {
    return {least, end, without_least, true, unit};
  }
  /// Returns the interval without infinities.
  [[nodiscard]] constexpr knob_range finite() const {
    constexpr double infinite = std::numeric_limits<double>::infinity();
    return {
        least, most, without_least || least == -infinite, without_most || most == infinite, unit};
  }
  /// Returns the interval in a unit.
  [[nodiscard]] constexpr knob_range in(std::string_view of) const {
    return {least, most, without_least, without_most, of};
  }
};

/// Ranges: at_least(0), above(0).finite(), at_least(0).below(1), within(0, 1), any_finite().
[[nodiscard]] constexpr knob_range at_least(double least) {
  return {.least = least};
}
/// Numbers more than `least`.
[[nodiscard]] constexpr knob_range above(double least) {
  return {.least = least, .without_least = true};
}
/// Numbers from `least` to `most`, both included.
[[nodiscard]] constexpr knob_range within(double least, double most) {
  return {.least = least, .most = most};
}
/// All finite numbers.
[[nodiscard]] constexpr knob_range any_finite() {
  return knob_range{}.finite();
}

/// Marks a knob as a token.
struct token_knob {};
inline constexpr token_knob a_token{};  ///< The range of a token.

/// Description of a knob for texts and messages.
struct knob_text {
  std::string_view name = {};        ///< Name in texts and messages.
  knob_kind kind = knob_kind::real;  ///< Kind of value.
  knob_range range = {};             ///< Range of a number.
  std::string_view words = {};       ///< words of a word knob, separated by |
  index_t capacity = 0;              ///< most entries of a list
  std::string_view list = {};        ///< default of a list; without one it must be given

  /// True if the value is a list.
  [[nodiscard]] constexpr bool is_list() const {
    return kind == knob_kind::tokens || kind == knob_kind::reals;
  }
};

/// A knob with a pointer to its member.
template <class Part>
struct knob : knob_text {
  /// Reads and writes an enumerator as its place in knob_text::words.
  struct word_access {
    /// Reads it.
    int (*get)(const Part&);
    /// Writes it.
    void (*set)(Part&, int);
  };
  // By name: nvcc writes a member pointer's declaration in a way that g++ warns about.
  template <class T>
  using member_of = T Part::*;  ///< Pointer to a member of the part.
  union {
    member_of<float> real;
    member_of<double> exact;
    member_of<index_t> whole;
    member_of<bool> flag;
    word_access word;
    void (*fill)(Part&, const double* values, index_t count);
  };

  /// A real number.
  constexpr knob(std::string_view called, float Part::* member, const knob_range& of)
      : knob_text{called, knob_kind::real, of}
      , real(member) {}
  /// A real number of double precision.
  constexpr knob(std::string_view called, double Part::* member, const knob_range& of)
      : knob_text{called, knob_kind::exact, of}
      , exact(member) {}
  /// A whole number.
  constexpr knob(std::string_view called, index_t Part::* member, const knob_range& of)
      : knob_text{called, knob_kind::whole, of}
      , whole(member) {}
  /// A token.
  constexpr knob(std::string_view called, token_id Part::* member, token_knob)
      : knob_text{called, knob_kind::token, at_least(0)}
      , whole(member) {}
  /// True or false.
  constexpr knob(std::string_view called, bool Part::* member)
      : knob_text{called, knob_kind::flag, within(0, 1)}
      , flag(member) {}
  /// An enumerator.
  constexpr knob(std::string_view called, std::string_view all, word_access member)
      : knob_text{called, knob_kind::word, {}, all}
      , word(member) {}
  /// A knob that is a list, which `use` writes into the part. `text` is its default in texts.
  constexpr knob(std::string_view called,
                 knob_kind tokens_or_reals,
                 index_t most,
                 void (*use)(Part&, const double*, index_t),
                 std::string_view text = {})
      : knob_text{called, tokens_or_reals, {}, {}, most, text}
      , fill(use) {}

  /// Returns the value in a part as a number; for lists there is none.
  [[nodiscard]] constexpr double value(const Part& p) const {
    switch (kind) {
    case knob_kind::real:
      return number(p, real);
    case knob_kind::exact:
      return number(p, exact);
    case knob_kind::whole:
    case knob_kind::token:
      return number(p, whole);
    case knob_kind::flag:
      return p.*flag ? 1.0 : 0.0;
    case knob_kind::word:
      return static_cast<double>(word.get(p));
    default:
      return 0.0;
    }
  }
  /// Writes the value into a part.
  constexpr void set(Part& p, double to) const {
    switch (kind) {
    case knob_kind::real:
      p.*real = static_cast<float>(to);
      break;
    case knob_kind::exact:
      p.*exact = to;
      break;
    case knob_kind::whole:
    case knob_kind::token:
      p.*whole = static_cast<index_t>(to);
      break;
    case knob_kind::flag:
      p.*flag = to != 0.0;
      break;
    case knob_kind::word:
      word.set(p, static_cast<int>(to));
      break;
    default:
      break;
    }
  }

 private:
  // g++ 12 warns of a number larger than its member, for parts that are never described like this.
  template <class Number>
  [[nodiscard]] static constexpr double number(const Part& p, Number Part::* member) {
    if constexpr (sizeof(Part) >= sizeof(Number)) {
      return static_cast<double>(p.*member);
    } else {
      return 0.0;
    }
  }
};

namespace detail {

template <auto Member>
struct word_member;
template <class Part, class Enum, Enum Part::* Member>
struct word_member<Member> {
  static constexpr int get(const Part& p) { return static_cast<int>(p.*Member); }
  static constexpr void set(Part& p, int to) { p.*Member = static_cast<Enum>(to); }
  static constexpr knob<Part> described(std::string_view name, std::string_view words) {
    return {name, words, typename knob<Part>::word_access{&get, &set}};
  }
};

// Writes a list into a part with the members `tokens` and `count`.
template <class Part>
constexpr void fill_tokens(Part& p, const double* values, index_t count) {
  for (index_t i = 0; i < count; ++i) {
    p.tokens[i] = static_cast<token_id>(values[i]);
  }
  p.count = count;
}

}  // namespace detail

/// A knob that is an enumerator: word_knob<&part::member>("name", "first|second").
template <auto Member>
[[nodiscard]] constexpr auto word_knob(std::string_view name, std::string_view words) {
  return detail::word_member<Member>::described(name, words);
}

namespace detail {

[[gnu::cold]] inline void add_range(message& text, const knob_range& r) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  if (r.least == -infinite && r.most != infinite) {
    text.add(r.without_most ? "less than " : "at most ").add(r.most);
    text.add(r.without_least ? " and finite" : "");
  } else if (r.least == -infinite || (r.without_least && r.least == 0.0 && r.most == infinite)) {
    text.add(r.least == 0.0 ? "positive" : "a finite number");
  } else {
    text.add(r.most != infinite ? (r.without_least ? "in (" : "in [")
             : r.without_least  ? "more than "
                                : "at least ");
    text.add(r.least);
  }
  if (r.least != -infinite && r.most != infinite) {
    text.add(", ").add(r.most).add(r.without_most ? ')' : ']');
  } else if (r.least != -infinite && r.without_most) {
    text.add(" and finite");
  }
  text.add(r.unit.empty() ? "" : " ").add(r.unit);
}

}  // namespace detail

/// A range in words: "in [0, 1]", "at least 0 nats", "positive and finite".
[[nodiscard]] inline std::string range_text(const knob_range& r) {
  detail::message text;
  detail::add_range(text, r);
  return text.text();
}

/// A part with knobs.
template <class P>
concept described = requires { P::knobs[0].range; };

namespace detail {

[[noreturn, gnu::cold]] inline void
refuse_knob(const knob_text& k, double value, std::string_view type) {
  message text;
  text.add(type).add(type.empty() ? "" : "::").add(k.name).add(" must be ");
  if (k.kind == knob_kind::token) {
    text.add("a token or no_token");
  } else {
    add_range(text, k.range);
  }
  text.add(", got ");
  if (k.kind == knob_kind::token || k.kind == knob_kind::whole) {
    text.add(static_cast<index_t>(value)).refuse();
  }
  text.add(value).refuse();
}

// The knobs declared by a part. In nvcc 13 the bound of such an array of a class template is known
// only after one of its entries was used in a constant expression.
template <class P>
[[nodiscard]] constexpr std::size_t knob_count() {
  if constexpr (described<P>) {
    constexpr knob_kind first = P::knobs[0].kind;
    static_cast<void>(first);
    return sizeof(P::knobs) / sizeof(P::knobs[0]);
  } else {
    return 0;
  }
}

template <class Part>
void check_knobs(const std::type_identity_t<Part>& p,
                 const knob<Part>* knobs,
                 std::size_t count,
                 std::string_view type) {
  for (std::size_t i = 0; i < count; ++i) {
    const knob<Part>& k = knobs[i];
    if (k.kind <= knob_kind::whole || k.kind == knob_kind::token) {
      const double value = k.value(p);
      if (!k.range.holds(value)) {
        refuse_knob(k, value, type);
      }
    }
  }
}

template <class P>
[[nodiscard]] constexpr part_label label_of() {
  if constexpr (requires { P::label; }) {
    return P::label;
  } else {
    return {};
  }
}

}  // namespace detail

/// Throws std::invalid_argument "<part>::<knob> must be <range>, got <value>" for the first knob
/// out of range, and rethrows errors of the part's own check(). Host only.
template <class P>
void check_part(const P& part, const sequence_shape& g) {
  if constexpr (described<P>) {
    detail::check_knobs(part, P::knobs, detail::knob_count<P>(), detail::label_of<P>().name);
  }
  if constexpr (checked<P>) {
    part.check(g);
  }
}

/// Also checks the rules that depend on the model.
template <class P>
void check_part(const P& part, const sequence_shape& g, const model_info& m) {
  check_part(part, g);
  if constexpr (checked_with_model<P>) {
    part.check(g, m);
  }
}

}  // namespace unmask
