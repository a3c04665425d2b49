// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/language/automaton.hpp>
#include <unmask/language/unicode_categories.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Code points, sets of them, and the general categories of Unicode.
namespace UNMASK_NAMESPACE::detail::languages {

/// No code point: the end of a text.
inline constexpr std::uint32_t no_code = 0xffffffffU;

/// Runs of code points, first and last.
using code_set = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

/// Sorted, disjoint, and not next to each other.
[[nodiscard]] inline code_set normal(code_set set) {
  std::sort(set.begin(), set.end());
  code_set out;
  for (const auto& [first, last] : set) {
    if (!out.empty() && first <= out.back().second + 1) {
      out.back().second = std::max(out.back().second, last);
    } else {
      out.emplace_back(first, last);
    }
  }
  return out;
}

/// All scalar values that are not in a normal set. Surrogates are in no set: no text in UTF-8 has
/// one.
[[nodiscard]] inline code_set complement(const code_set& of) {
  code_set out;
  const auto add = [&out](std::uint32_t first, std::uint32_t last) {
    if (first <= last && first < 0xd800U) {
      out.emplace_back(first, std::min(last, 0xd7ffU));
    }
    if (first <= last && last > 0xdfffU) {
      out.emplace_back(std::max(first, 0xe000U), last);
    }
  };
  std::uint32_t at = 0;
  for (const auto& [first, last] : of) {
    if (first > at) {
      add(at, first - 1);
    }
    at = last + 1;
  }
  add(at, 0x10ffffU);
  return out;
}

/// The scalar values of a set, normal.
[[nodiscard]] inline code_set scalar_values(const code_set& set) {
  return complement(complement(normal(set)));
}

/// The code point at `at` of a text in UTF-8, behind which `at` is then.
[[nodiscard]] inline std::uint32_t next_code(std::string_view text, std::size_t& at) {
  const std::uint32_t first = static_cast<unsigned char>(text[at++]);
  const unsigned more = first < 0x80U ? 0 : first < 0xe0U ? 1 : first < 0xf0U ? 2 : 3;
  std::uint32_t code = more > 0 ? first & (0x3fU >> more) : first;
  for (unsigned i = 0; i < more && at < text.size(); ++i) {
    code = code << 6U | (static_cast<unsigned char>(text[at++]) & 0x3fU);
  }
  return code;
}

/// A code point in UTF-8.
[[nodiscard]] inline std::string utf8_of(std::uint32_t code) {
  std::string out;
  const auto add = [&out](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80U) {
    add(code);
  } else if (code < 0x800U) {
    add(0xc0U | code >> 6U);
    add(0x80U | (code & 0x3fU));
  } else if (code < 0x10000U) {
    add(0xe0U | code >> 12U);
    add(0x80U | (code >> 6U & 0x3fU));
    add(0x80U | (code & 0x3fU));
  } else {
    add(0xf0U | code >> 18U);
    add(0x80U | (code >> 12U & 0x3fU));
    add(0x80U | (code >> 6U & 0x3fU));
    add(0x80U | (code & 0x3fU));
  }
  return out;
}

/// The code points of a general category of Unicode, by its short or its long name; empty where
/// there is none of that name.
[[nodiscard]] inline code_set general_category(std::string_view name) {
  struct alias {
    std::string_view longer;
    std::string_view shorter;
  };
  static constexpr alias aliases[] = {
      {"Letter", "L"},
      {"Lowercase_Letter", "Ll"},
      {"Uppercase_Letter", "Lu"},
      {"Titlecase_Letter", "Lt"},
      {"Cased_Letter", "LC"},
      {"Modifier_Letter", "Lm"},
      {"Other_Letter", "Lo"},
      {"Mark", "M"},
      {"Combining_Mark", "M"},
      {"Nonspacing_Mark", "Mn"},
      {"Spacing_Mark", "Mc"},
      {"Enclosing_Mark", "Me"},
      {"Number", "N"},
      {"Decimal_Number", "Nd"},
      {"digit", "Nd"},
      {"Letter_Number", "Nl"},
      {"Other_Number", "No"},
      {"Punctuation", "P"},
      {"punct", "P"},
      {"Connector_Punctuation", "Pc"},
      {"Dash_Punctuation", "Pd"},
      {"Open_Punctuation", "Ps"},
      {"Close_Punctuation", "Pe"},
      {"Initial_Punctuation", "Pi"},
      {"Final_Punctuation", "Pf"},
      {"Other_Punctuation", "Po"},
      {"Symbol", "S"},
      {"Math_Symbol", "Sm"},
      {"Currency_Symbol", "Sc"},
      {"Modifier_Symbol", "Sk"},
      {"Other_Symbol", "So"},
      {"Separator", "Z"},
      {"Space_Separator", "Zs"},
      {"Line_Separator", "Zl"},
      {"Paragraph_Separator", "Zp"},
      {"Other", "C"},
      {"Control", "Cc"},
      {"cntrl", "Cc"},
      {"Format", "Cf"},
      {"Surrogate", "Cs"},
      {"Private_Use", "Co"},
      {"Unassigned", "Cn"},
  };
  for (const alias& a : aliases) {
    name = name == a.longer ? a.shorter : name;
  }
  if (name == "Any") {
    return {{0, 0x10ffffU}};
  }
  if (name == "ASCII") {
    return {{0, 0x7fU}};
  }
  const bool is_assigned = name == "Assigned";
  const std::string_view wanted = is_assigned ? "Cn" : name;
  code_set out;
  std::uint32_t first = 0;
  for (std::size_t i = 0; i < sizeof category_runs;) {
    const std::uint32_t head = category_runs[i++];
    std::uint32_t length = head >> 5U;
    for (unsigned shift = 0; head >> 5U == 0; shift += 7) {
      const std::uint32_t digit = category_runs[i++];
      length |= (digit & 127U) << shift;
      if (digit < 128) {
        break;
      }
    }
    const std::string_view category = category_names[head & 31U];
    const bool is_cased = category == "Lu" || category == "Ll" || category == "Lt";
    if (category == wanted || category.substr(0, 1) == wanted || (wanted == "LC" && is_cased)) {
      out.emplace_back(first, first + length - 1);
    }
    first += length;
  }
  return is_assigned ? complement(normal(out)) : normal(out);
}

}  // namespace UNMASK_NAMESPACE::detail::languages
