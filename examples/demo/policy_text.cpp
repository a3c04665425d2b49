// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "demo/policies.hpp"

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

/// The shortest text that reads back as the same number.
std::string shortest(double value) {
  char text[32];
  const auto written = std::to_chars(std::begin(text), std::end(text), value);
  return {text, written.ptr};
}

const known_policy& find_policy(std::string_view name) {
  const auto all = known_policies();
  const auto found = std::ranges::find(all, name, &known_policy::name);
  if (found == all.end()) {
    std::string names;
    for (const known_policy& p : all) {
      names += (names.empty() ? "" : ", ") + std::string(p.name);
    }
    throw std::invalid_argument("name must be one of " + names + ", got " + quoted(name));
  }
  return *found;
}

std::size_t find_knob(const known_policy& p, std::string_view name) {
  const auto found = std::ranges::find(p.knobs, name, &knob::name);
  if (found == p.knobs.end()) {
    std::string names;
    for (const knob& k : p.knobs) {
      names += (names.empty() ? "" : ", ") + std::string(k.name);
    }
    throw std::invalid_argument("knob of " + std::string(p.name) + " must be " +
                                (names.empty() ? "left out, it has none" : "one of " + names) +
                                ", got " + quoted(name));
  }
  return static_cast<std::size_t>(found - p.knobs.begin());
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

/// The first knob always, further ones where they are not the default.
std::string label_of(const known_policy& p, std::span<const double> values) {
  std::string knobs;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i == 0) {
      knobs = shortest(values[i]);
    } else if (values[i] != p.knobs[i].value) {
      knobs += ", " + std::string(p.knobs[i].name) + "=" + shortest(values[i]);
    }
  }
  return std::string(p.name) + (knobs.empty() ? "" : "(" + knobs + ")");
}

}  // namespace

chosen_policy::chosen_policy(std::string_view text) {
  text = trimmed(text);
  const std::size_t open = text.find('(');
  const std::string_view name = trimmed(text.substr(0, open));
  entry_ = &find_policy(name);
  for (const knob& k : entry_->knobs) {
    values_.push_back(k.value);
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
        knob = find_knob(*entry_, trimmed(argument.substr(0, equals)));
      } else if (place >= values_.size()) {
        throw std::invalid_argument(std::string(name) + " takes at most " +
                                    std::to_string(values_.size()) + " numbers, got " +
                                    quoted(argument) + " too");
      }
      const std::string_view value =
          equals == std::string_view::npos ? argument : trimmed(argument.substr(equals + 1));
      values_[knob] = number_of(entry_->knobs[knob], value);
    }
  }
  label_ = open == std::string_view::npos ? std::string(name) : label_of(*entry_, values_);
}

chosen_policy chosen_policy::with_main(double value) const {
  chosen_policy other = *this;
  const std::size_t knob = find_knob(*entry_, entry_->main.knob);
  other.values_[knob] = value;
  other.label_ = label_of(*entry_, other.values_);
  return other;
}

std::string chosen_policy::series() const {
  std::string knobs;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const knob& k = entry_->knobs[i];
    if (k.name != entry_->main.knob && values_[i] != k.value) {
      knobs += (knobs.empty() ? "" : ", ") + std::string(k.name) + "=" + shortest(values_[i]);
    }
  }
  return std::string(entry_->name) + (knobs.empty() ? "" : "(" + knobs + ")");
}

std::vector<chosen_policy> all_policies() {
  std::vector<chosen_policy> policies;
  for (const known_policy& p : known_policies()) {
    policies.emplace_back(p.name);
    for (const std::string_view text : p.main.also) {
      policies.emplace_back(text);
    }
  }
  return policies;
}

std::vector<chosen_policy> default_policies() {
  std::vector<chosen_policy> policies;
  for (const known_policy& p : known_policies()) {
    for (const std::string_view text : p.shown) {
      policies.emplace_back(text);
    }
  }
  return policies;
}

std::string list_of_policies() {
  std::string list;
  for (const known_policy& p : known_policies()) {
    std::string call = std::string(p.name);
    for (const knob& k : p.knobs) {
      call += (&k == p.knobs.data() ? "(" : ", ") + std::string(k.name) + "=" + shortest(k.value);
    }
    call += p.knobs.empty() ? "" : ")";
    list += "  " + call + "\n      " + std::string(p.about) + "\n";
  }
  return list;
}

}  // namespace demo
