// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/language/budget.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace UNMASK_NAMESPACE::detail::languages {

/// A number of JSON, exactly: digits * 10^exponent. The first and the last digit are not 0; zero
/// has none.
struct decimal {
  bool is_negative = false;
  std::string digits;
  std::int64_t exponent = 0;

  /// The number of a text as JSON writes it. Throws refused for an exponent beyond a million.
  static decimal of(std::string_view text) {
    decimal out;
    std::size_t i = 0;
    if (text[0] == '-') {
      out.is_negative = true;
      ++i;
    }
    bool is_behind_point = false;
    for (; i < text.size() && text[i] != 'e' && text[i] != 'E'; ++i) {
      if (text[i] == '.') {
        is_behind_point = true;
      } else {
        out.digits += text[i];
        out.exponent -= is_behind_point ? 1 : 0;
      }
    }
    if (i < text.size()) {
      const bool is_below = text[++i] == '-';
      i += text[i] == '-' || text[i] == '+' ? 1U : 0U;
      constexpr std::int64_t most = 1'000'000;
      std::int64_t exponent = 0;
      for (; i < text.size(); ++i) {
        exponent = std::min<std::int64_t>(exponent * 10 + (text[i] - '0'), most + 1);
      }
      if (exponent > most) {
        throw refused("a number has an exponent beyond 1000000");
      }
      out.exponent += is_below ? -exponent : exponent;
    }
    out.digits.erase(0, std::min(out.digits.find_first_not_of('0'), out.digits.size()));
    while (!out.digits.empty() && out.digits.back() == '0') {
      out.digits.pop_back();
      ++out.exponent;
    }
    if (out.digits.empty()) {
      out.is_negative = false;
      out.exponent = 0;
    }
    return out;
  }

  bool operator==(const decimal&) const = default;
  [[nodiscard]] bool is_zero() const { return digits.empty(); }
  [[nodiscard]] bool is_whole() const { return exponent >= 0; }
  /// Digits in front of the point; 0 or fewer for a number below 1.
  [[nodiscard]] std::int64_t whole_size() const {
    return static_cast<std::int64_t>(digits.size()) + exponent;
  }
  /// The digits in front of the point, without leading zeros.
  [[nodiscard]] std::string whole() const {
    if (is_zero() || whole_size() <= 0) {
      return "";
    }
    std::string out = digits.substr(0, static_cast<std::size_t>(whole_size()));
    out.resize(static_cast<std::size_t>(whole_size()), '0');
    return out;
  }
  /// The digits behind the point.
  [[nodiscard]] std::string fraction() const {
    if (exponent >= 0) {
      return "";
    }
    const std::int64_t size = whole_size();
    return size >= 0 ? digits.substr(static_cast<std::size_t>(size))
                     : std::string(static_cast<std::size_t>(-size), '0') + digits;
  }
  /// Without an exponent.
  [[nodiscard]] std::string plain() const {
    const std::string w = whole();
    const std::string f = fraction();
    return (is_negative ? "-" : "") + (w.empty() ? "0" : w) + (f.empty() ? "" : "." + f);
  }
};

/// -1, 0 or 1 as the first number is below, equal to or above the second.
[[nodiscard]] inline int compare(const decimal& a, const decimal& b) {
  if (a.is_negative != b.is_negative) {
    return a.is_negative ? -1 : 1;
  }
  const int sign = a.is_negative ? -1 : 1;
  if (a.is_zero() || b.is_zero()) {
    return sign * (a.is_zero() ? (b.is_zero() ? 0 : -1) : 1);
  }
  if (a.whole_size() != b.whole_size()) {
    return a.whole_size() < b.whole_size() ? -sign : sign;
  }
  const int order = a.digits.compare(b.digits);  // no digits at the end are zeros
  return order < 0 ? -sign : order > 0 ? sign : 0;
}

}  // namespace UNMASK_NAMESPACE::detail::languages
