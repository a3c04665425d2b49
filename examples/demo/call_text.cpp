// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "demo/call_text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace demo {

namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  return first == std::string_view::npos
             ? std::string_view{}
             : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string quoted(std::string_view text) {
  return std::string("'") + std::string(text) + "'";
}

std::size_t find_call(std::span<const named_call> known, std::string_view name) {
  const auto found = std::ranges::find(known, name, &named_call::name);
  if (found == known.end()) {
    std::string names;
    for (const named_call& c : known) {
      names += (names.empty() ? "" : ", ") + std::string(c.name);
    }
    throw std::invalid_argument("name must be one of " + names + ", got " + quoted(name));
  }
  return static_cast<std::size_t>(found - known.begin());
}

double number_of(const knob& k, std::string_view text) {
  double value = 0.0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  const bool number = read.ec == std::errc{} && read.ptr == end && std::isfinite(value);
  // The conversion to an index in knob_values must be exact.
  const bool fits = !k.whole || (std::floor(value) == value &&
                                 std::abs(value) <= std::numeric_limits<unmask::index_t>::max());
  if (!number || !fits) {
    throw std::invalid_argument(std::string(k.name) + " must be a " + (k.whole ? "whole " : "") +
                                "number, got " + quoted(text));
  }
  return value;
}

}  // namespace

std::string shortest(double value) {
  char text[32];
  const auto written = std::to_chars(std::begin(text), std::end(text), value);
  return {text, written.ptr};
}

std::size_t find_knob(const named_call& call, std::string_view name) {
  const auto found = std::ranges::find(call.knobs, name, &knob::name);
  if (found == call.knobs.end()) {
    std::string names;
    for (const knob& k : call.knobs) {
      names += (names.empty() ? "" : ", ") + std::string(k.name);
    }
    throw std::invalid_argument("knob of " + std::string(call.name) + " must be " +
                                (names.empty() ? "left out, it has none" : "one of " + names) +
                                ", got " + quoted(name));
  }
  return static_cast<std::size_t>(found - call.knobs.begin());
}

std::string call_label(const named_call& call, std::span<const double> values) {
  std::string knobs;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i == 0) {
      knobs = shortest(values[i]);
    } else if (values[i] != call.knobs[i].value) {
      knobs += ", " + std::string(call.knobs[i].name) + "=" + shortest(values[i]);
    }
  }
  return std::string(call.name) + (knobs.empty() ? "" : "(" + knobs + ")");
}

std::string
filled(std::string_view pattern, std::span<const knob> knobs, std::span<const double> values) {
  std::string text(pattern);
  const auto fill = [&text](const std::string& hole, double value) {
    for (std::size_t at = text.find(hole); at != std::string::npos; at = text.find(hole)) {
      text.replace(at, hole.size(), shortest(value));
    }
  };
  for (std::size_t i = 0; i < knobs.size(); ++i) {
    fill("{" + std::string(knobs[i].name) + "}", values[i]);
    fill("{" + std::string(knobs[i].name) + "^2}", values[i] * values[i]);
  }
  return text;
}

std::string call_help(const named_call& call, std::string_view about, std::string_view pattern) {
  std::string text = "  " + std::string(call.name);
  for (const knob& k : call.knobs) {
    text += (&k == call.knobs.data() ? "(" : ", ") + std::string(k.name) + "=" + shortest(k.value);
  }
  text += (call.knobs.empty() ? "" : ")") + std::string("\n      ") + std::string(about) + "\n";
  return text + (pattern.empty() ? "" : "      = " + std::string(pattern) + "\n");
}

read_call parse_call(std::string_view text, std::span<const named_call> known) {
  text = trimmed(text);
  const std::size_t open = text.find('(');
  const std::string_view name = trimmed(text.substr(0, open));
  read_call read;
  read.index = find_call(known, name);
  const named_call& call = known[read.index];
  for (const knob& k : call.knobs) {
    read.values.push_back(k.value);
  }
  if (open != std::string_view::npos) {
    if (text.back() != ')') {
      throw std::invalid_argument("must end with ')', got " + quoted(text));
    }
    std::string_view rest = text.substr(open + 1, text.size() - open - 2);
    for (std::size_t place = 0; !trimmed(rest).empty(); ++place) {
      const std::size_t comma = rest.find(',');
      const std::string_view argument = trimmed(rest.substr(0, comma));
      rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
      const std::size_t equals = argument.find('=');
      std::size_t knob = place;
      if (equals != std::string_view::npos) {
        knob = find_knob(call, trimmed(argument.substr(0, equals)));
      } else if (place >= read.values.size()) {
        throw std::invalid_argument(std::string(name) + " takes at most " +
                                    std::to_string(read.values.size()) + " numbers, got " +
                                    quoted(argument) + " too");
      }
      const std::string_view value =
          equals == std::string_view::npos ? argument : trimmed(argument.substr(equals + 1));
      read.values[knob] = number_of(call.knobs[knob], value);
    }
  }
  read.label = open == std::string_view::npos ? std::string(name) : call_label(call, read.values);
  return read;
}

}  // namespace demo
