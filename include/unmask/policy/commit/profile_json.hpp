// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/policy/commit/calibrated_threshold.hpp>
#include <unmask/text/json_reader.hpp>
#include <unmask/text/json_text.hpp>

#include <concepts>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

/// Host only: profiles as JSON.
///
///     {
///       "unmask_profile":1,
///       "mode":"step_block",
///       "statistic":"median",
///       "recorded":"committed",
///       "threshold":0.9,
///       "cap":0.75,
///       "slack":0.2,
///       "block_length":32,
///       "blocks":[
///         [0.95,0.91,0.93],
///         [0.9]
///       ]
///     }
///
/// Written with the fewest digits that give the same floats back. Read strictly: every key once, in
/// any order, and no other.
namespace UNMASK_NAMESPACE {

namespace detail {

inline constexpr index_t profile_version = 1;

inline constexpr std::string_view mode_names[] = {"block", "step_block"};
inline constexpr std::string_view statistic_names[] = {"mean", "q1", "median", "q3", "min_whisker"};
inline constexpr std::string_view recorded_names[] = {"committed", "candidates"};

/// Calls take(key, value, names of its values if it is a word) for each key in turn; for "blocks"
/// the value is the profile.
void for_each_entry(auto& p, auto& version, auto&& take) {
  take("unmask_profile", version);
  take("mode", p.mode, mode_names);
  take("statistic", p.statistic, statistic_names);
  take("recorded", p.recorded, recorded_names);
  take("threshold", p.threshold);
  take("cap", p.cap);
  take("slack", p.slack);
  take("block_length", p.block_length);
  take("blocks", p);
}

template <std::size_t N>
void read_value(json_reader& in, auto& word, const std::string_view (&names)[N]) {
  word = static_cast<std::remove_reference_t<decltype(word)>>(in.one_of(names));
}
inline void read_value(json_reader& in, float& x) {
  x = in.real();
}
inline void read_value(json_reader& in, index_t& n) {
  n = in.whole<index_t>();
}
template <int Cells>
void read_value(json_reader& in, calibrated_threshold<Cells>& p) {
  index_t used = 0;
  in.list([&] {
    const index_t first = used;
    in.list([&] {
      const float threshold = in.real();
      if (used == Cells) {
        in.fail("expected at most " + std::to_string(Cells) + " thresholds in all");
      }
      p.cells[used++] = threshold;
    });
    if (used == first) {
      in.fail("expected a threshold in each block");
    }
    p.ends[p.blocks++] = static_cast<std::uint16_t>(used);
  });
}

template <std::size_t N>
void write_value(json_text& out, auto word, const std::string_view (&names)[N]) {
  out.string(names[static_cast<std::size_t>(word)]);
}
void write_value(json_text& out, std::integral auto n) {
  out.number(n);
}
void write_value(json_text& out, std::floating_point auto x) {
  out.number(x);
}
template <int Cells>
void write_value(json_text& out, const calibrated_threshold<Cells>& p) {
  out.open('[');
  for (index_t b = 0; b < p.blocks; ++b) {
    out.break_line(4);
    out.open('[');
    for (index_t i = p.first_cell(b); i < p.first_cell(b + 1); ++i) {
      out.number(p.cells[i]);
    }
    out.close(']');
  }
  if (p.blocks > 0) {
    out.break_line(2);
  }
  out.close(']');
}

}  // namespace detail

/// Returns the text of a profile with its knobs. Cost: O(cells).
template <int Cells>
[[nodiscard]] std::string to_json(const calibrated_threshold<Cells>& p) {
  p.check_values();
  json_text out;
  out.open('{');
  detail::for_each_entry(p,
                         detail::profile_version,
                         [&](std::string_view key, const auto& value, const auto&... names) {
                           out.break_line(2);
                           out.key(key);
                           detail::write_value(out, value, names...);
                         });
  out.break_line(0);
  out.close('}');
  return std::string(out.line());
}

/// Returns the profile of a text. Errors: std::invalid_argument naming the line, the column, the
/// key and the rule; also for values out of range. Cost: O(text).
template <int Cells = 256>
[[nodiscard]] calibrated_threshold<Cells> profile_from_json(std::string_view text) {
  calibrated_threshold<Cells> p;
  index_t version = detail::profile_version;
  std::uint32_t seen = 0;
  json_reader in(text, "profile");
  in.object([&](std::string_view key) {
    bool is_known = false;
    std::uint32_t bit = 1;
    detail::for_each_entry(
        p, version, [&](std::string_view name, auto& value, const auto&... names) {
          if (key == name) {
            is_known = true;
            in.about(name);
            if ((seen & bit) != 0) {
              in.fail("it must be there once");
            }
            seen |= bit;
            detail::read_value(in, value, names...);
          }
          bit <<= 1U;
        });
    if (!is_known) {
      in.about("");
      in.fail("expected a key of a profile");
    }
    if (version != detail::profile_version) {
      in.about("unmask_profile");
      in.fail("must be 1, the version that this library reads, got " + std::to_string(version));
    }
  });
  in.finish();
  std::uint32_t bit = 1;
  detail::for_each_entry(p, version, [&](std::string_view name, const auto&, const auto&...) {
    if ((seen & bit) == 0) {
      throw std::invalid_argument("profile: " + std::string(name) + " must be there");
    }
    bit <<= 1U;
  });
  p.check_values();
  return p;
}

/// Writes the text to a file. Errors: std::runtime_error with the path.
template <int Cells>
void save_profile(const calibrated_threshold<Cells>& p, const std::string& path) {
  const std::string text = to_json(p);
  std::ofstream out{path, std::ios::binary};
  out << text << std::flush;
  if (!out) {
    throw std::runtime_error("profile file " + path + " cannot be written");
  }
}

/// Reads a file that save_profile() wrote. Errors: std::runtime_error with the path if it cannot be
/// read, std::invalid_argument with the path as in profile_from_json().
template <int Cells = 256>
[[nodiscard]] calibrated_threshold<Cells> load_profile(const std::string& path) {
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
