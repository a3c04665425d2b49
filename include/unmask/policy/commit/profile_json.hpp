// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/policy/commit/profile.hpp>
#include <unmask/policy/commit/profile_reader.hpp>

#include <array>
#include <fstream>
#include <iterator>
#include <locale>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

/// Host only: profiles as text, a small subset of JSON.
///
///     {
///       "unmask_profile": 1,
///       "mode": "step_block",
///       "statistic": "median",
///       "recorded": "committed",
///       "threshold": 0.9,
///       "cap": 0.75,
///       "slack": 0.2,
///       "block_length": 32,
///       "blocks": [
///         [0.95, 0.91, 0.93],
///         [0.9]
///       ]
///     }
///
/// Written with as few digits as give the same floats back. Read strictly: every key once, in any
/// order, and no other; any white space; no escapes in strings.
namespace UNMASK_NAMESPACE {

namespace detail {

inline constexpr int profile_version = 1;
inline constexpr std::array<std::string_view, 2> profile_modes{"block", "step_block"};
inline constexpr std::array<std::string_view, 5> profile_metrics{
    "mean", "q1", "median", "q3", "min_whisker"};
inline constexpr std::array<std::string_view, 2> profile_records{"committed", "candidates"};
inline constexpr std::array<std::string_view, 9> profile_keys{"unmask_profile",
                                                              "mode",
                                                              "statistic",
                                                              "recorded",
                                                              "threshold",
                                                              "cap",
                                                              "slack",
                                                              "block_length",
                                                              "blocks"};

/// The shortest of the usual decimal forms that gives the same float back.
[[nodiscard]] inline std::string shortest(float x) {
  std::string text;
  for (int digits = 1; digits <= 9; ++digits) {
    std::ostringstream out;
    out.imbue(std::locale::classic());
    out.precision(digits);
    out << x;
    text = out.str();
    float back = 0.0F;
    if (read_float(text, back) && back == x) {
      break;
    }
  }
  return text;
}

// Takes "blocks": arrays of one or more thresholds each.
template <int Cells>
void read_blocks(profile_reader& in, profile_threshold<Cells>& p) {
  const std::string room = "at most " + std::to_string(Cells) + " thresholds in all";
  in.expect('[', "an array of arrays");
  index_t used = 0;
  while (!in.take(']')) {
    if (p.blocks > 0) {
      in.expect(',', "arrays with commas between them");
    }
    in.expect('[', "an array of arrays");
    do {
      const float threshold = in.number();
      if (used == Cells) {
        in.complain(room, "more");
      }
      p.cells[used++] = threshold;
    } while (in.take(','));
    in.expect(']', "arrays of numbers with commas between them");
    p.ends[p.blocks++] = static_cast<std::uint16_t>(used);
  }
}

template <int Cells>
void read_value(profile_reader& in, std::string_view key, profile_threshold<Cells>& p) {
  if (key == "unmask_profile") {
    if (const index_t version = in.count(); version != profile_version) {
      in.complain("1, the version that this library reads", std::to_string(version));
    }
  } else if (key == "mode") {
    p.mode = static_cast<profile_mode>(in.one_of(profile_modes));
  } else if (key == "statistic") {
    p.statistic = static_cast<metric>(in.one_of(profile_metrics));
  } else if (key == "recorded") {
    p.recorded = static_cast<collect>(in.one_of(profile_records));
  } else if (key == "threshold") {
    p.threshold = in.number();
  } else if (key == "cap") {
    p.cap = in.number();
  } else if (key == "slack") {
    p.slack = in.number();
  } else if (key == "block_length") {
    p.block_length = in.count();
  } else {
    read_blocks(in, p);
  }
}

}  // namespace detail

/// The text of a profile with its knobs. O(cells).
template <int Cells>
[[nodiscard]] std::string to_json(const profile_threshold<Cells>& p) {
  p.check_values();
  std::string text;
  const auto line = [&text](std::string_view key, const std::string& value) {
    text.append("  \"").append(key).append("\": ").append(value).append(",\n");
  };
  const auto quoted = [](std::string_view word) { return '"' + std::string{word} + '"'; };
  text += "{\n";
  line("unmask_profile", std::to_string(detail::profile_version));
  line("mode", quoted(detail::profile_modes.at(static_cast<std::size_t>(p.mode))));
  line("statistic", quoted(detail::profile_metrics.at(static_cast<std::size_t>(p.statistic))));
  line("recorded", quoted(detail::profile_records.at(static_cast<std::size_t>(p.recorded))));
  line("threshold", detail::shortest(p.threshold));
  line("cap", detail::shortest(p.cap));
  line("slack", detail::shortest(p.slack));
  line("block_length", std::to_string(p.block_length));
  text += "  \"blocks\": [";
  for (index_t b = 0; b < p.blocks; ++b) {
    text += b == 0 ? "\n    [" : ",\n    [";
    for (index_t i = p.first_cell(b); i < p.first_cell(b + 1); ++i) {
      text.append(i == p.first_cell(b) ? "" : ", ").append(detail::shortest(p.cells[i]));
    }
    text += ']';
  }
  return text + (p.blocks > 0 ? "\n  ]\n}\n" : "]\n}\n");
}

/// The profile that a text holds. Throws std::invalid_argument naming the line, the key, its value
/// and the rule; also for values out of range. O(text).
template <int Cells = 256>
[[nodiscard]] profile_threshold<Cells> profile_from_json(std::string_view text) {
  profile_threshold<Cells> p;
  std::array<bool, detail::profile_keys.size()> seen{};
  detail::profile_reader in{text};
  in.expect('{', "an object in braces");
  do {
    in.at_key({});
    const std::size_t i = in.one_of(detail::profile_keys);
    in.at_key(detail::profile_keys[i]);
    if (seen[i]) {
      in.complain("there once", "a second one");
    }
    seen[i] = true;
    in.expect(':', "followed by a colon");
    detail::read_value(in, detail::profile_keys[i], p);
  } while (in.take(','));
  in.expect('}', "followed by a comma or a closing brace");
  in.expect_end();
  for (std::size_t i = 0; i < seen.size(); ++i) {
    in.at_key(detail::profile_keys[i]);
    if (!seen[i]) {
      in.complain("there", "no such key");
    }
  }
  p.check_values();
  return p;
}

/// Writes the text to a file. Throws std::runtime_error with the path if that fails.
template <int Cells>
void save_profile(const profile_threshold<Cells>& p, const std::string& path) {
  const std::string text = to_json(p);
  std::ofstream out{path, std::ios::binary};
  out << text << std::flush;
  if (!out) {
    throw std::runtime_error("profile file " + path + " cannot be written");
  }
}

/// Reads a file that save_profile() wrote. Throws std::runtime_error with the path if it cannot be
/// read, std::invalid_argument with the path as profile_from_json() does.
template <int Cells = 256>
[[nodiscard]] profile_threshold<Cells> load_profile(const std::string& path) {
  std::ifstream in{path, std::ios::binary};
  const std::string text{std::istreambuf_iterator<char>{in}, {}};
  if (!in.is_open() || in.bad()) {
    throw std::runtime_error("profile file " + path + " cannot be read");
  }
  try {
    return profile_from_json<Cells>(text);
  } catch (const std::invalid_argument& reason) {
    throw std::invalid_argument(path + ": " + reason.what());
  }
}

}  // namespace unmask
