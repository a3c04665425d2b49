// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/types.hpp>
#include <unmask/text/write_number.hpp>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <type_traits>

namespace UNMASK_NAMESPACE {

namespace detail {

// Throws the error; without exceptions prints it and ends the program.
template <class Error>
[[noreturn, gnu::cold]] void raise(const char* message) {
#if defined(__cpp_exceptions)
  throw Error(message);
#else
  std::fprintf(stderr, "unmask: %s\n", message);
  std::abort();
#endif
}

// The text of an error. Made for short compilation, not for speed, as is everything that builds
// messages; without std::string, because g++ compiles its used members into every program.
class message {
 public:
  [[gnu::cold]] message& add(std::string_view words) {
    for (const char c : words) {
      add(c);
    }
    return *this;
  }
  [[gnu::cold]] message& add(char letter) {
    if (size_ + 1 < sizeof text_) {
      text_[size_++] = letter;
    }
    return *this;
  }
  [[gnu::cold]] message& add(double number) {
    char digits[most_digits];
    return add(digits, write_six_digits(digits, number));
  }
  [[gnu::cold]] message& add(long long number) {
    char digits[most_digits];
    return add(digits, write_number(digits, number));
  }
  [[gnu::cold]] message& add(unsigned long long number) {
    char digits[most_digits];
    return add(digits, write_number(digits, number));
  }
  template <class T>
  message& add(const T& value) {
    if constexpr (std::is_convertible_v<T, std::string_view>) {
      return add(std::string_view(value));
    } else if constexpr (std::is_floating_point_v<T>) {
      return add(static_cast<double>(value));
    } else if constexpr (std::is_unsigned_v<T>) {
      return add(static_cast<unsigned long long>(value));
    } else {
      return add(static_cast<long long>(value));
    }
  }

  [[nodiscard]] const char* text() const { return text_; }
  operator std::string_view() const {  // NOLINT(google-explicit-constructor): it is text
    return {text_, size_};
  }
  [[noreturn, gnu::cold]] void refuse() const { raise<std::invalid_argument>(text_); }

 private:
  // A view of two pointers is not in every library for C++20.
  [[gnu::cold]] message& add(const char* first, const char* last) {
    return add(std::string_view(first, static_cast<std::size_t>(last - first)));
  }

  char text_[1024] = {};
  std::size_t size_ = 0;
};

template <class T, class... Rule>
[[noreturn, gnu::cold]] void refuse(std::string_view name, const T& value, const Rule&... rule) {
  message text;
  text.add(name).add(" must be ");
  (text.add(rule), ...);
  text.add(", got ").add(value).refuse();
}

}  // namespace detail

/// Throws std::invalid_argument "<name> must be <rule>, got <value>" unless `holds`. The rule may
/// be given in pieces; they are joined, and memory is allocated, only when it throws. Host only.
template <class T, class... Rule>
constexpr void
check_argument(bool holds, std::string_view name, const T& value, const Rule&... rule) {
  if (!holds) {
    detail::refuse(name, value, rule...);
  }
}

namespace detail {

// Checks the list of tokens of a part: none negative, at least one given.
inline void check_tokens(const listed_token* tokens, index_t count, std::string_view name) {
  bool any = false;
  for (index_t k = 0; k < count; ++k) {
    check_argument(tokens[k] >= 0, name, tokens[k].token, "at least 0");
    any = any || tokens[k] != no_token;
  }
  check_argument(any, name, "none", "at least one token");
}

}  // namespace detail

/// Throws std::logic_error with `message` unless `holds`: for calls in the wrong order. Host only.
inline void check_order(bool holds, const char* message) {
  if (!holds) {
    detail::raise<std::logic_error>(message);
  }
}

}  // namespace unmask
