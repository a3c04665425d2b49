// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named/known_part.hpp>
#include <unmask/named/policy_text.hpp>

#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace UNMASK_NAMESPACE {

/// Values of a part's arguments, in the order of the table.
class argument_values {
 public:
  /// Reads written arguments. Errors: policy_text_error naming part, argument, value and rule.
  argument_values(std::string_view text,
                  const known_part& part,
                  const part_text& written,
                  const file_source& files)
      : text_(text)
      , part_(part)
      , written_(written)
      , files_(files) {
    for (const part_argument& a : part.arguments) {
      values_.push_back({a.value});
    }
    given_.resize(part.arguments.size());
    for (std::size_t i = 0; i < written.arguments.size(); ++i) {
      read(i, written.arguments[i]);
    }
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (part.arguments[i].must_be_given() && !given_[i]) {
        fail(std::string(part.arguments[i].name) + " of " + std::string(part.name) +
             " must be given: " + rule_text(part.arguments[i]) + ", such as [1, 2]");
      }
    }
    check_lists();
  }

  /// The part whose arguments they are.
  [[nodiscard]] const known_part& part() const { return part_; }
  /// True if argument i is in the text.
  [[nodiscard]] bool given(std::size_t i) const { return given_[i]; }
  [[nodiscard]] double number(std::size_t i) const { return values_[i].number; }
  /// The list of argument i; empty if none was given.
  [[nodiscard]] const std::vector<double>& list(std::size_t i) const { return values_[i].list; }
  /// Sets the knobs of a part; the first knob is argument `first`.
  template <class Part>
  void fill(Part& part, std::size_t first) const {
    for (std::size_t k = 0; k < detail::knob_count<Part>(); ++k) {
      const knob<Part>& to = Part::knobs[k];
      if (!to.is_list()) {
        to.set(part, number(first + k));
      } else if (!list(first + k).empty()) {
        to.fill(part, list(first + k).data(), static_cast<index_t>(list(first + k).size()));
      }
    }
  }
  /// Returns read(contents) of the file that argument i names. Errors: policy_text_error if there
  /// is no such file, or if `read` throws std::invalid_argument.
  [[nodiscard]] auto from_file(std::size_t i, const auto& read) const {
    const std::string name(values_[i].name);
    try {
      return read(files_(name));
    } catch (const std::invalid_argument& e) {
      throw policy_text_error(text_,
                              values_[i].column,
                              std::string(part_.arguments[i].name) + " of " +
                                  std::string(part_.name) + ", " + detail::quoted(name) + ": " +
                                  e.what());
    }
  }

  /// Throws policy_text_error at the part.
  [[noreturn]] void fail(const std::string& problem) const {
    throw policy_text_error(text_, written_.column, problem);
  }
  /// Returns the part if its own check passes. Errors: otherwise policy_text_error at the part.
  template <class Part>
  [[nodiscard]] const Part& checked_part(const Part& part) const {
    try {
      check_part(part, sequence_shape{});
    } catch (const std::invalid_argument& e) {
      fail(e.what());
    }
    return part;
  }
  /// Marks `there` as used. Errors: policy_text_error if it already is.
  void take_only(bool& there, std::string_view what) const {
    if (there) {
      fail("a policy has at most one " + std::string(what) +
           ", got another: " + std::string(part_.name));
    }
    there = true;
  }

 private:
  struct read_value {
    double number = 0.0;
    std::vector<double> list = {};
    std::string_view name = {};
    std::size_t column = 0;
  };

  // Checks that the lists of a part have the length of the first one.
  void check_lists() const {
    std::string rule;
    std::string found;
    std::size_t length = 0;
    bool holds = true;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const part_argument& a = part_.arguments[i];
      if (a.is_list()) {
        const std::size_t here = values_[i].list.size();
        const bool is_first = rule.empty();
        length = is_first ? here : length;
        holds = holds && here == length && here <= static_cast<std::size_t>(a.capacity) &&
                (here > 0 || !a.must_be_given());
        rule += is_first ? (a.must_be_given() ? " must have 1 to " : " must have at most ") +
                               std::to_string(a.capacity) + " "
                         : " and as many ";
        rule += a.name;
        found += (is_first ? "" : " and ") + std::to_string(here);
      }
    }
    if (!holds) {
      fail(std::string(part_.name) + rule + ", got " + found);
    }
  }

  [[nodiscard]] std::string names() const {
    std::string all;
    for (const part_argument& a : part_.arguments) {
      all += (all.empty() ? "" : ", ") + std::string(a.name);
    }
    return all;
  }

  void read(std::size_t place, const argument_text& written) {
    const std::string name(part_.name);
    std::size_t i = place;
    if (!written.name.empty()) {
      for (i = 0; i < values_.size() && part_.arguments[i].name != written.name;) {
        ++i;
      }
    } else {
      for (std::size_t k = 0; k < place; ++k) {
        if (!written_.arguments[k].name.empty()) {
          refuse(written.value,
                 "an argument of " + name + " without a name must come before those with one");
        }
      }
    }
    if (i >= values_.size()) {
      const std::string most = std::to_string(values_.size());
      refuse(written.value,
             !written.name.empty() ? name + " has no argument " + detail::quoted(written.name) +
                                         (values_.empty() ? "" : ": it has " + names())
             : values_.empty()
                 ? name + " has no arguments"
                 : name + " has " + most + (values_.size() == 1 ? " argument: " : " arguments: ") +
                       names());
    }
    if (given_[i]) {
      refuse(written.value,
             std::string(part_.arguments[i].name) + " of " + name + " is given twice");
    }
    given_[i] = true;
    convert(part_.arguments[i], written.value, values_[i]);
  }

  [[noreturn]] void refuse(const value_text& at, const std::string& problem) const {
    throw policy_text_error(text_, at.column, problem);
  }

  // The upper bound of a whole number, for one that is above it and above all else in its range.
  static std::string too_large(const part_argument& a, const value_text& from) {
    const bool is_above = (a.kind == knob_kind::whole || a.kind == knob_kind::token) &&
                          from.is == value_text::kind::number && from.number > double{no_token} &&
                          a.range.holds(from.number);
    return is_above ? " and at most " + std::to_string(no_token) : "";
  }
  // A decimal comma divides a number into two arguments; the second may be a flag.
  static std::string hint(const part_argument& a, const value_text& from) {
    return a.kind == knob_kind::flag && from.is == value_text::kind::number
               ? ": numbers have a decimal point, such as 0.9"
               : "";
  }

  void convert(const part_argument& a, const value_text& from, read_value& to) const {
    const auto check = [&](bool holds) {
      if (!holds) {
        const std::string of = a.name == part_.name ? "" : " of " + std::string(part_.name);
        const bool is_real = (a.kind == knob_kind::real || a.kind == knob_kind::exact) &&
                             rule_text(a).rfind("a ", 0) != 0;
        refuse(from,
               std::string(a.name) + of + " must be " +
                   (from.is != value_text::kind::number && is_real ? "a number " : "") +
                   rule_text(a) + too_large(a, from) + ", got " +
                   detail::plain_or_quoted(from.text) + hint(a, from));
      }
    };
    const auto is_whole = [](double x, double most) {
      return std::floor(x) == x && std::abs(x) <= most;
    };
    const bool is_word = from.is == value_text::kind::part && from.part->arguments.empty();
    switch (a.kind) {
    case knob_kind::real:
    case knob_kind::exact:
      check(from.is == value_text::kind::number && std::isfinite(from.number) &&
            std::isfinite(static_cast<float>(from.number)) && a.range.holds(from.number));
      to.number = from.number;
      break;
    case knob_kind::whole:
    case knob_kind::token:
      check(from.is == value_text::kind::number && is_whole(from.number, no_token) &&
            a.range.holds(from.number));
      to.number = from.number;
      break;
    case knob_kind::flag:
      check((from.is == value_text::kind::number && (from.number == 0.0 || from.number == 1.0)) ||
            (is_word && (from.part->name == "true" || from.part->name == "false")));
      to.number = is_word ? (from.part->name == "true" ? 1.0 : 0.0) : from.number;
      break;
    case knob_kind::word: {
      std::size_t count = 1;
      for (const char c : a.words) {
        count += c == '|' ? 1 : 0;
      }
      std::size_t k = 0;
      while (k < count && !(is_word && a.word(k) == from.part->name)) {
        ++k;
      }
      check(k < count);
      to.number = static_cast<double>(k);
      break;
    }
    case knob_kind::tokens:
    case knob_kind::reals:
      check(from.is == value_text::kind::list);
      for (const double x : from.list) {
        check(a.kind == knob_kind::reals ? !std::isnan(x)
                                         : is_whole(x, no_token - 1.0) && x >= 0.0);
      }
      to.list = from.list;
      break;
    case knob_kind::file:
      check(from.is == value_text::kind::quoted && from.text.size() > 2 &&
            from.text.find('\0') == from.text.npos);  // would end the name that is opened
      to.name = from.text.substr(1, from.text.size() - 2);
      to.column = from.column;
      break;
    }
  }

  std::string_view text_;
  const known_part& part_;
  const part_text& written_;
  const file_source& files_;
  std::vector<read_value> values_;
  std::vector<bool> given_;
};

}  // namespace unmask
