// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace demo {

/// A name for a text of the library (unmask::read_policy). No part and no method of the library has
/// the same name, so that a text means one thing; another value is had by writing the text.
struct preset {
  std::string_view name;
  std::string_view about;
  std::string_view text;       ///< with {} where the value goes; empty: no part at all
  bool shown = false;          ///< among the policies that are compared by default
  std::string_view knob = {};  ///< of the value, which trades accuracy for forward passes
  double value = 0.0;
  std::vector<double> sweep = {};  ///< the values of its frontier; empty: one point
};

/// Every policy that the demo has a name for: a new one is one more entry in presets.cpp.
std::span<const preset> policy_presets();

/// Parts that any policy may get: caches and layer rules.
std::span<const preset> cache_presets();

/// The preset of that name, or null.
const preset* find_preset(std::span<const preset> presets, std::string_view name);

/// The shortest text that reads back as the same number.
std::string shortest(double value);

/// Its text with a value.
std::string text_of(const preset& p, double value);

/// The table as text, for --help.
std::string list_of(std::span<const preset> presets);

}  // namespace demo
