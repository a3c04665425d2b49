// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/composition_rules.hpp>
#include <unmask/named/file_source.hpp>
#include <unmask/named/named_policy.hpp>

#include <span>
#include <string>
#include <string_view>

/// Descriptions of parts for users who compose by name.
namespace UNMASK_NAMESPACE {

/// An argument: a knob of the C++ part and its default.
struct part_argument : knob_text {
  double value = 0.0;  ///< default; 0 or 1 for a flag, the index of a word

  [[nodiscard]] constexpr bool must_be_given() const { return is_list() && list.empty(); }
  /// The word with that index.
  [[nodiscard]] std::string_view word(std::size_t index) const {
    std::string_view rest = words;
    for (; index > 0; --index) {
      rest.remove_prefix(rest.find('|') + 1);
    }
    return rest.substr(0, rest.find('|'));
  }
};

class argument_values;
class registered_part;

/// A part that a policy text can name.
struct known_part {
  std::string_view name;
  part_stage stage = part_stage::ranking;
  std::string_view about;  ///< description in one line
  std::span<const part_argument> arguments;
  part_traits traits;
  /// Adds the part to a composition. Errors: policy_text_error.
  void (*add)(named_policy& parts, const argument_values& values) = nullptr;
  /// With a function of the host that decides for it: that function; null for all others.
  const registered_part* registered = nullptr;

  /// True if it decides what is committed, so that a text has no other commit rule.
  [[nodiscard]] constexpr bool decides() const { return traits.commits || traits.rewrites_blocks; }
};

/// The shortest text that reads back as the same float; whole numbers without a point.
[[nodiscard]] UNMASK_LIBRARY std::string shortest_text(double value);

/// Values that an argument may have, in words: "in [0, 1]", "a whole number, at least 1".
[[nodiscard]] UNMASK_LIBRARY std::string rule_text(const part_argument& a);

/// An argument's default in the syntax of a text: "0.9", "true", "block"; empty for a token, and
/// for arguments that must be given.
[[nodiscard]] UNMASK_LIBRARY std::string default_text(const part_argument& a);

}  // namespace unmask

#if UNMASK_DEFINES
#  include <unmask/text/write_number.hpp>

#  include <cmath>
#  include <cstdint>

namespace UNMASK_NAMESPACE {

UNMASK_LIBRARY std::string shortest_text(double value) {
  char text[detail::most_digits];
  const bool whole = std::floor(value) == value && std::abs(value) < 1e15;
  return {text,
          whole ? detail::write_number(text, std::int64_t(value))
                : detail::write_number(text, float(value))};
}

UNMASK_LIBRARY std::string rule_text(const part_argument& a) {
  switch (a.kind) {
  case knob_kind::flag:
    return "true or false";
  case knob_kind::word: {
    std::string rule = "one of " + std::string(a.words);
    for (std::size_t at = rule.find('|'); at != std::string::npos; at = rule.find('|')) {
      rule.replace(at, 1, ", ");
    }
    return rule;
  }
  case knob_kind::tokens:
    return "a list of tokens";
  case knob_kind::reals:
    return "a list of numbers";
  case knob_kind::file:
    return "the quoted name of a file";
  case knob_kind::token:
    return "a token, " + range_text(a.range);
  case knob_kind::whole:
    return "a whole number, " + range_text(a.range);
  case knob_kind::real:
  case knob_kind::exact:
    break;
  }
  return range_text(a.range);
}

UNMASK_LIBRARY std::string default_text(const part_argument& a) {
  switch (a.kind) {
  case knob_kind::token:
  case knob_kind::file:
    return {};
  case knob_kind::tokens:
  case knob_kind::reals:
    return std::string(a.list);
  case knob_kind::flag:
    return a.value != 0.0 ? "true" : "false";
  case knob_kind::word:
    return std::string(a.word(static_cast<std::size_t>(a.value)));
  default:
    return shortest_text(a.value);
  }
}

}  // namespace unmask
#endif
