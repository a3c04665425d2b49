// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdlib>
#include <type_traits>

/// Selects one mutant of the rewritten headers at run time: the environment variable
/// UNMASK_MUTANT has its number, 0 is the original code.
namespace mutants {

inline int selected = 0;
inline unsigned char reached[1 << 16] = {};  ///< by number: 1 once its place has been evaluated

[[gnu::constructor(101)]] inline void select() {
  const char* const number = std::getenv("UNMASK_MUTANT");
  selected = number == nullptr ? 0 : std::atoi(number);
}

/// True if mutant `n` is selected. Never in a constant expression.
constexpr bool on(int n) {
  if (std::is_constant_evaluated()) {
    return false;
  }
  reached[n] = 1;
  return selected == n;
}

/// Another value of the same type: the negation, 0 (or 1 for 0), or a default-constructed object.
template <class T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_pointer_v<T> ||
           (std::is_class_v<T> && std::is_default_constructible_v<T>))
constexpr T other(const T& x) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<T>(x == T{} ? 1 : 0);
  } else if constexpr (std::is_enum_v<T>) {
    return x == T{} ? static_cast<T>(1) : T{};
  } else {
    return T{};
  }
}

}  // namespace mutants
