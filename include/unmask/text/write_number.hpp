// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/config.hpp>

#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <type_traits>

namespace UNMASK_NAMESPACE::detail {

/// Characters that write_number() writes at most.
inline constexpr std::size_t most_digits = 32;

template <class T>
concept written_by_library = requires(char* at, T x) {
  { std::to_chars(at, at, x) } -> std::same_as<std::to_chars_result>;
};

// Returns the end of `size` characters of printf with the locale's decimal point replaced.
[[nodiscard]] inline char* with_a_point(char* first, int size) {
  for (char* at = first; at != first + size; ++at) {
    *at = *at == ',' ? '.' : *at;
  }
  return first + size;
}

/// std::to_chars without it: the fewest digits that read back as `x`, whatever the locale.
template <class T>
[[nodiscard]] char* write_real(char* first, T x) {
  int size = 0;
  for (int digits = 1; digits <= std::numeric_limits<T>::max_digits10; ++digits) {
    size = std::snprintf(first, most_digits, "%.*g", digits, static_cast<double>(x));
    T read{};
    if constexpr (sizeof(T) == sizeof(float)) {
      read = std::strtof(first, nullptr);
    } else {
      read = std::strtod(first, nullptr);
    }
    if (read == x) {
      break;
    }
  }
  return with_a_point(first, size);
}

/// Writes a number as std::to_chars does, the fewest digits that read back as it, to a buffer of
/// `most_digits` characters, and returns their end. With a standard library that writes integers
/// only, which libc++ before 14 is, in the form of printf's %g.
template <class T>
[[nodiscard]] char* write_number(char* first, T x) {
  if constexpr (std::is_integral_v<T> || written_by_library<T>) {
    return std::to_chars(first, first + most_digits, x).ptr;
  } else {
    return write_real(first, x);
  }
}

/// Writes a number in the form of printf's %g, six digits at most, whatever the locale.
template <std::floating_point T>
[[nodiscard]] char* write_six_digits(char* first, T x) {
  if constexpr (written_by_library<T>) {
    return std::to_chars(first, first + most_digits, x, std::chars_format::general, 6).ptr;
  } else {
    return with_a_point(first, std::snprintf(first, most_digits, "%g", static_cast<double>(x)));
  }
}

}  // namespace UNMASK_NAMESPACE::detail
