// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/policy/commit/calibrated_threshold.hpp>
#include <unmask/text/read_number.hpp>
#include <unmask/text/write_number.hpp>

#include <array>
#include <concepts>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

/// Host only: profiles as text, in a small subset of JSON.
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
/// Written with the fewest digits that give the same floats back. Read strictly: every key once, in
/// any order, and no other; any white space; no escapes in strings.
namespace UNMASK_NAMESPACE {

namespace detail {

inline constexpr index_t profile_version = 1;

/// Calls take(key, value, names of its values...) for each key in turn; for "blocks" the value is
/// the profile.
void for_each_entry(auto& p, auto& version, auto&& take) {
  take("unmask_profile", version);
  take("mode", p.mode, "block", "step_block");
  take("statistic", p.statistic, "mean", "q1", "median", "q3", "min_whisker");
  take("recorded", p.recorded, "committed", "candidates");
  take("threshold", p.threshold);
  take("cap", p.cap);
  take("slack", p.slack);
  take("block_length", p.block_length);
  take("blocks", p);
}

/// Reader of the text of a profile, value by value. Its errors name line and key, and quote the
/// text if it is a profile: another file may have been named in place of one.
struct profile_text {
  std::string_view text;
  std::size_t at = 0;
  std::string_view key = "the text";
  bool is_profile = false;  ///< its version has been read

  [[noreturn]] void complain(std::string_view rule, std::string_view got) const {
    int line = 1;
    for (const char c : text.substr(0, at)) {
      line += c == '\n' ? 1 : 0;
    }
    std::string message = "profile, line " + std::to_string(line) + ": ";
    message.append(key).append(" must be ").append(rule);
    if (got.empty()) {
      message += ", got the end";
    } else if (is_profile) {
      message += ", got '";
      for (const char c : got.substr(0, 40)) {
        message += c >= ' ' && c <= '~' ? c : '?';
      }
      message += got.size() > 40 ? "...'" : "'";
    }
    throw std::invalid_argument(message);
  }

  /// Skips white space, then returns the text up to a character that may follow a value.
  [[nodiscard]] std::string_view next() {
    const std::size_t first = text.find_first_not_of(" \n\t\r", at);
    at = first < text.size() ? first : text.size();
    const std::string_view rest = text.substr(at);
    const std::size_t size = rest.find_first_of(" \n\t\r,]}");
    return rest.substr(0, size == 0 ? 1 : size);
  }
  [[nodiscard]] bool take(char wanted) {
    const bool is_next = next().starts_with(wanted);
    at += is_next ? 1 : 0;
    return is_next;
  }
  void expect(char wanted, std::string_view rule) {
    if (!take(wanted)) {
      complain(rule, next());
    }
  }

  /// Reads one of `names` and returns its index.
  [[nodiscard]] std::size_t one_of(std::span<const std::string_view> names) {
    std::string rule = "one of";
    for (const std::string_view name : names) {
      rule.append(" \"").append(name).append("\"");
    }
    expect('"', rule);
    const std::string_view word = text.substr(at, text.find_first_of("\"\\\n", at) - at);
    if (!text.substr(at + word.size()).starts_with('"')) {
      complain("a string that ends on its line, without escapes", word);
    }
    std::size_t i = 0;
    while (i < names.size() && names[i] != word) {
      ++i;
    }
    if (i == names.size()) {
      complain(rule, word);
    }
    at += word.size() + 1;
    return i;
  }

  /// Reads a number in JSON's syntax, which is stricter than that of std::from_chars.
  template <class T>
  [[nodiscard]] T number(std::string_view rule) {
    const std::string_view word = next();
    const auto is_digit = [&](std::size_t i) {
      return i < word.size() && word[i] >= '0' && word[i] <= '9';
    };
    T x{};
    const auto [end, error] = detail::read_number(word.data(), word.data() + word.size(), x);
    const std::size_t first = word.starts_with('-') ? 1 : 0;
    const std::size_t point = word.find('.');
    const bool good = error == std::errc{} && end == word.data() + word.size() && is_digit(first) &&
                      !(word[first] == '0' && is_digit(first + 1)) &&
                      (point == word.npos || is_digit(point + 1));
    if (!good || (std::is_integral_v<T> && (first == 1 || word.size() > 9))) {
      complain(rule, word);
    }
    at += word.size();
    return x;
  }

  [[nodiscard]] float number() { return number<float>("a number"); }

  void read(float& x) { x = number(); }
  void read(index_t& n) { n = number<index_t>("a whole number of at most 9 digits"); }
  void read(auto& word, std::convertible_to<std::string_view> auto... names) {
    using type = std::remove_reference_t<decltype(word)>;
    word = static_cast<type>(one_of(std::array{std::string_view{names}...}));
  }
  template <int Cells>
  void read(calibrated_threshold<Cells>& p) {
    expect('[', "an array of arrays");
    index_t used = 0;
    while (!take(']')) {
      if (p.blocks > 0) {
        expect(',', "arrays with commas between them");
      }
      expect('[', "an array of arrays");
      do {
        const float threshold = number();
        if (used == Cells) {
          complain("at most " + std::to_string(Cells) + " thresholds in all", "more");
        }
        p.cells[used++] = threshold;
      } while (take(','));
      expect(']', "arrays of numbers with commas between them");
      p.ends[p.blocks++] = static_cast<std::uint16_t>(used);
    }
  }
};

/// Writes a value in the syntax of the text.
struct profile_writer {
  std::string text;

  void write(auto x) {  // the shortest digits that give the same number back
    char digits[detail::most_digits];
    text.append(digits, detail::write_number(digits, x));
  }
  void write(auto word, std::convertible_to<std::string_view> auto... names) {
    const std::string_view all[] = {names...};
    text.append("\"").append(all[static_cast<std::size_t>(word)]).append("\"");
  }
  template <int Cells>
  void write(const calibrated_threshold<Cells>& p) {
    text += '[';
    for (index_t b = 0; b < p.blocks; ++b) {
      text += b == 0 ? "\n    [" : ",\n    [";
      for (index_t i = p.first_cell(b); i < p.first_cell(b + 1); ++i) {
        text += i == p.first_cell(b) ? "" : ", ";
        write(p.cells[i]);
      }
      text += ']';
    }
    text += p.blocks > 0 ? "\n  ]" : "]";
  }
};

}  // namespace detail

/// Returns the text of a profile with its knobs. Cost: O(cells).
template <int Cells>
[[nodiscard]] std::string to_json(const calibrated_threshold<Cells>& p) {
  p.check_values();
  detail::profile_writer out;
  const auto entry = [&](std::string_view key, const auto& value, auto... names) {
    out.text.append(out.text.empty() ? "{\n  \"" : ",\n  \"").append(key).append("\": ");
    out.write(value, names...);
  };
  detail::for_each_entry(p, detail::profile_version, entry);
  return out.text + "\n}\n";
}

/// Returns the profile of a text. Errors: std::invalid_argument naming the line, the key, its value
/// and the rule; also for values out of range. Cost: O(text).
template <int Cells = 256>
[[nodiscard]] calibrated_threshold<Cells> profile_from_json(std::string_view text) {
  calibrated_threshold<Cells> p;
  index_t version = detail::profile_version;
  std::vector<std::string_view> keys;
  detail::for_each_entry(
      p, version, [&](const char* key, auto&, auto...) { keys.emplace_back(key); });
  std::vector<bool> seen(keys.size());
  detail::profile_text in{text};
  in.expect('{', "an object in braces");
  do {
    in.key = "the text";
    const std::size_t i = in.one_of(keys);
    in.key = keys[i];
    if (seen[i]) {
      in.complain("there once", "a second one");
    }
    seen[i] = true;
    in.expect(':', "followed by a colon");
    detail::for_each_entry(p, version, [&](const char* key, auto& value, auto... names) {
      if (key == keys[i]) {
        in.read(value, names...);
      }
    });
    in.is_profile = seen[0];
    if (version != detail::profile_version) {
      in.complain("1, the version that this library reads", std::to_string(version));
    }
  } while (in.take(','));
  in.expect('}', "followed by a comma or a closing brace");
  in.key = "the text";
  if (!in.next().empty()) {
    in.complain("over after the closing brace", in.next());
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    in.key = keys[i];
    if (!seen[i]) {
      in.complain("there", "no such key");
    }
  }
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
