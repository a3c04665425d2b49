// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/types.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace demo {

/// A number that a policy or a cache may be given by name or by place.
struct knob {
  std::string_view name;
  double value = 0.0;  ///< unless told otherwise
  bool whole = false;  ///< must be a whole number
};

/// The knobs' values, in the order of the table.
class knob_values {
 public:
  explicit knob_values(std::span<const double> values)
      : values_(values) {}
  double exact(std::size_t i) const { return values_[i]; }
  float real(std::size_t i) const { return static_cast<float>(values_[i]); }
  unmask::index_t whole(std::size_t i) const { return static_cast<unmask::index_t>(values_[i]); }
  bool yes(std::size_t i) const { return values_[i] != 0.0; }

 private:
  std::span<const double> values_;
};

/// What may be named: the name and its knobs.
struct named_call {
  std::string_view name;
  std::span<const knob> knobs;
};

/// What was named: which of the known, the values of its knobs, and how it is shown.
struct read_call {
  std::size_t index = 0;
  std::vector<double> values;
  std::string label;
};

/// Reads `name`, `name(0.9)` or `name(knob=0.9, ...)`. Throws std::invalid_argument naming what is
/// wrong and what is known.
read_call parse_call(std::string_view text, std::span<const named_call> known);

/// The index of a knob. Throws std::invalid_argument for a name that there is not.
std::size_t find_knob(const named_call& call, std::string_view name);

/// `name(0.9)`: the first knob always, further ones where they are not the default.
std::string call_label(const named_call& call, std::span<const double> values);

/// The shortest text that reads back as the same number.
std::string shortest(double value);

/// A pattern with the values of knobs in the {holes} of their names, and their squares in those
/// of {name^2}.
std::string
filled(std::string_view pattern, std::span<const knob> knobs, std::span<const double> values);

/// Lines for --help: the call with its defaults, what it does and, if there is one, the pattern of
/// the composition that it stands for.
std::string call_help(const named_call& call, std::string_view about, std::string_view pattern);

}  // namespace demo
