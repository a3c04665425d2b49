// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/types.hpp>

#include <concepts>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>

namespace UNMASK_NAMESPACE {

namespace detail {

[[gnu::cold]] inline void append(std::string& text, std::string_view words) {
  text += words;
}
[[gnu::cold]] inline void append(std::string& text, token_id number) {
  text += std::to_string(number);
}
[[gnu::cold]] void append(std::string& text, std::integral auto number) {
  text += std::to_string(number);
}
[[gnu::cold]] inline void append(std::string& text, char letter) {
  text += letter;
}
[[gnu::cold]] void append(std::string& text, std::floating_point auto number) {  // as streams write it
  char digits[32];
  const int size = std::snprintf(digits, sizeof digits, "%g", static_cast<double>(number));
  text.append(digits, static_cast<std::size_t>(size));
}

// cold, like all that makes up messages: short to compile, not fast to run.
template <class T, class... Rule>
[[noreturn, gnu::cold]] void refuse(std::string_view name, const T& value, const Rule&... rule) {
  std::string text(name);
  text += " must be ";
  (append(text, rule), ...);
  text += ", got ";
  append(text, value);
  throw std::invalid_argument(text);
}

}  // namespace detail

/// Throws std::invalid_argument "<name> must be <rule>, got <value>" unless `holds`. The rule may
/// come in pieces, which are put together, and memory asked for, only then. Host only.
template <class T, class... Rule>
constexpr void
check_argument(bool holds, std::string_view name, const T& value, const Rule&... rule) {
  if (!holds) {
    detail::refuse(name, value, rule...);
  }
}

namespace detail {

// Of a part's list of tokens.
inline void check_tokens(const listed_token* tokens, index_t count, std::string_view name) {
  bool any = false;
  for (index_t k = 0; k < count; ++k) {
    check_argument(tokens[k] >= 0, name, tokens[k].token, "tokens");
    any = any || tokens[k] != no_token;
  }
  check_argument(any, name, "none", "at least one token");
}

}  // namespace detail

/// Throws std::logic_error with `message` unless `holds`: a call out of order. Host only.
inline void check_order(bool holds, const char* message) {
  if (!holds) {
    throw std::logic_error(message);
  }
}

}  // namespace unmask
