// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/config.hpp>

#include <charconv>
#include <clocale>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>

namespace UNMASK_NAMESPACE::detail {

template <class T>
concept read_by_library = requires(const char* at, T& x) { std::from_chars(at, at, x); };

/// std::from_chars without it: longest prefix of [first, last) that is a number, whatever the
/// locale.
template <class T>
[[nodiscard]] std::from_chars_result read_real(const char* first, const char* last, T& x) {
  const std::string_view text(first, static_cast<std::size_t>(last - first));
  const auto digits = [&](std::size_t i) { return text.find_first_not_of("0123456789", i); };
  const auto clipped = [&](std::size_t i) { return i == text.npos ? text.size() : i; };
  const std::size_t begin = text.starts_with('-') ? 1 : 0;
  std::size_t end = begin;
  if (text.substr(begin).starts_with("inf")) {
    end = begin + 3;
  } else {
    const std::size_t whole = clipped(digits(begin));
    const bool point = whole < text.size() && text[whole] == '.';
    end = point ? clipped(digits(whole + 1)) : whole;
    if (end - begin == (point ? 1U : 0U)) {
      return {first, std::errc::invalid_argument};
    }
    if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
      std::size_t power = end + 1;
      power += power < text.size() && (text[power] == '-' || text[power] == '+') ? 1U : 0U;
      const std::size_t after = clipped(digits(power));
      end = after > power ? after : end;
    }
  }
  std::string word(text.substr(0, end));
  if (const std::size_t at = word.find('.'); at != word.npos) {
    word.replace(at, 1, std::localeconv()->decimal_point);
  }
  T read{};
  if constexpr (sizeof(T) == sizeof(float)) {
    read = std::strtof(word.c_str(), nullptr);
  } else {
    read = std::strtod(word.c_str(), nullptr);
  }
  constexpr T most = std::numeric_limits<T>::max();
  const bool zero =
      word.substr(0, word.find_first_of("eE")).find_first_of("123456789i") == word.npos;
  if ((word.find('i') == word.npos && (read > most || read < -most)) || (read == T{} && !zero)) {
    return {first + end, std::errc::result_out_of_range};
  }
  x = read;
  return {first + end, std::errc{}};
}

/// Reads a number as std::from_chars does, also with a standard library that reads integers only,
/// which libc++ before 20 is.
template <class T>
[[nodiscard]] std::from_chars_result read_number(const char* first, const char* last, T& x) {
  if constexpr (read_by_library<T>) {
    return std::from_chars(first, last, x);
  } else {
    return read_real(first, last, x);
  }
}

}  // namespace UNMASK_NAMESPACE::detail
