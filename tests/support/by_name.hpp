// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Policies that are composed in C++ as policies by name, whose session is compiled once, in the
/// library: for tests of what parts decide. Tests of composition itself, and those with parts of
/// their own, have sessions of their types.

#include <unmask/named/known_parts.hpp>
#include <unmask/named_policy.hpp>

#include <charconv>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace unmask::testing {

template <class P>
concept composite_rule = requires(const P& p) { p.first, p.second; };

/// A list of a part, by its name in texts.
template <class P>
  requires requires(const P& p) { p.tokens[0], p.count; }
[[nodiscard]] std::vector<double> list_of(const P& part, std::string_view) {
  return {part.tokens, part.tokens + part.count};
}
template <int Count>
[[nodiscard]] std::vector<double> list_of(const logit_bias<Count>& part, std::string_view name) {
  std::vector<double> list;
  for (const token_bias& b : part.pairs) {
    if (b.token != no_token) {
      list.push_back(name == "tokens" ? static_cast<double>(b.token) : static_cast<double>(b.bias));
    }
  }
  return list;
}
[[nodiscard]] inline std::vector<double> list_of(const early_skip& part, std::string_view name) {
  std::vector<double> list;
  for (index_t i = 0; i < part.stage_count; ++i) {
    list.push_back(name == "depths" ? part.stages[i].depth : part.stages[i].keep);
  }
  return list;
}

template <class P>
concept with_lists = requires(const P& p) { list_of(p, std::string_view{}); };

/// True if one of the parts that texts know has the name of P and, as a layer rule, its feature.
template <class P, class... Known>
[[nodiscard]] consteval bool is_one_of(unmask::detail::type_list<Known...>) {
  if constexpr (requires { P::reads; }) {
    return (std::is_same_v<P, Known> || ...);
  } else {
    return ((Known::label.name == P::label.name) || ...);
  }
}

template <class P>
inline constexpr bool is_at_most = false;
template <class R>
inline constexpr bool is_at_most<at_most<R>> = true;

/// True if a text can name the part with the values that it has.
template <class P>
[[nodiscard]] consteval bool has_text() {
  if constexpr (is_at_most<P>) {
    return has_text<decltype(P::second)>();
  } else if constexpr (composite_rule<P>) {
    return has_text<decltype(P::first)>() && has_text<decltype(P::second)>();
  } else if constexpr (requires { P::label; }) {
    if constexpr (!is_one_of<P>(unmask::detail::table::all_parts{}) ||
                  (requires { P::order; } && !std::is_same_v<P, lookahead>) ||
                  P::label.name == "calibrated_threshold") {  // which is in a file
      return false;
    } else if constexpr (described<P>) {
      for (std::size_t i = 0; i < unmask::detail::knob_count<P>(); ++i) {
        const knob_kind kind = P::knobs[i].kind;
        const bool is_list = kind == knob_kind::tokens || kind == knob_kind::reals;
        if (kind == knob_kind::file || (is_list && !with_lists<P>)) {
          return false;
        }
      }
      return true;
    } else {
      return true;
    }
  } else {
    return false;
  }
}

template <class Number>
[[nodiscard]] std::string number_text(Number value) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

template <class A, class B>
[[nodiscard]] std::string text_of(const any_of<A, B>& rule);
template <class A, class B>
[[nodiscard]] std::string text_of(const all_of<A, B>& rule);
template <class R>
[[nodiscard]] std::string text_of(const at_most<R>& rule);

/// The part in the notation of texts, with all values that differ from their defaults.
template <class P>
[[nodiscard]] std::string text_of(const P& part) {
  std::string values;
  const auto add = [&values](std::string_view name, const std::string& value) {
    values += (values.empty() ? "" : ", ") + std::string(name) + "=" + value;
  };
  if constexpr (described<P>) {
    for (const knob<P>& k : P::knobs) {
      if (k.is_list()) {
        if constexpr (with_lists<P>) {
          std::string list;
          for (const double x : list_of(part, k.name)) {
            list += (list.empty() ? "" : ", ") + number_text(x);
          }
          add(k.name, "[" + list + "]");
        }
      } else if (k.value(part) != k.value(P{})) {
        const double value = k.value(part);
        if (k.kind == knob_kind::flag) {
          add(k.name, value != 0.0 ? "true" : "false");
        } else if (k.kind == knob_kind::word) {
          part_argument words;
          static_cast<knob_text&>(words) = k;
          add(k.name, std::string(words.word(static_cast<std::size_t>(value))));
        } else {
          add(k.name,
              k.kind == knob_kind::real ? number_text(static_cast<float>(value))
                                        : number_text(value));
        }
      }
    }
  }
  return std::string(P::label.name) + (values.empty() ? "" : "(" + values + ")");
}
template <class A, class B>
[[nodiscard]] std::string text_of(const any_of<A, B>& rule) {
  return "any_of(" + text_of(rule.first) + ", " + text_of(rule.second) + ")";
}
template <class A, class B>
[[nodiscard]] std::string text_of(const all_of<A, B>& rule) {
  return "all_of(" + text_of(rule.first) + ", " + text_of(rule.second) + ")";
}
template <class R>
[[nodiscard]] std::string text_of(const at_most<R>& rule) {
  return "at_most(" + std::to_string(rule.first.count) + ", " + text_of(rule.second) + ")";
}

/// The policy by name of the same parts; the policy itself if a text cannot name one of them, and
/// in a program without the library.
template <class... P>
[[nodiscard]] auto by_name(const policy<P...>& composed) {
#if defined(UNMASK_COMPILED)
  constexpr bool compiled = true;
#else
  constexpr bool compiled = false;
#endif
  if constexpr (compiled && (has_text<P>() && ...)) {
    std::string text;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      ((text += (text.empty() ? "" : " + ") + text_of(composed.template given<I>())), ...);
    }(std::make_index_sequence<sizeof...(P)>());
    return read_policy(text);
  } else {
    return composed;
  }
}
[[nodiscard]] inline named_policy by_name(const named_policy& policy) {
  return policy;
}

/// Its type.
template <class Policy>
using by_name_type = std::remove_cvref_t<decltype(by_name(std::declval<const Policy&>()))>;

}  // namespace unmask::testing
