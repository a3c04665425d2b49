// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/language/automaton.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace UNMASK_NAMESPACE::detail::languages {

using language::automaton;
using language::compile_limits;
using language::compiled;
using language::refusal;
using language::run;
using language::text_form;

/// A text is refused. Leaves the compilers as a value; see guarded().
class refused : public std::runtime_error {
 public:
  explicit refused(const std::string& message)
      : refused(refusal{message, "", 0}) {}
  explicit refused(refusal why)
      : std::runtime_error(why.message)
      , why_(std::move(why)) {}
  [[nodiscard]] const refusal& why() const { return why_; }

 private:
  refusal why_;
};

/// States, positions and time that a compilation may still use. Every loop spends from it.
class budget {
 public:
  explicit budget(const compile_limits& limits)
      : limits_(limits)
      , until_(clock::now() + std::chrono::milliseconds(limits.milliseconds)) {}

  /// Looks at the time after some thousand units of work, each of some nanoseconds.
  void spend(std::size_t work = 1) {
    if ((spent_ += work) >= look_at_) {
      spent_ = 0;
      if (clock::now() > until_) {
        throw refused("it takes over " + std::to_string(limits_.milliseconds) +
                      " ms, the limit `milliseconds`");
      }
    }
  }
  void check_states(std::size_t count) {
    if (count > limits_.states) {
      throw refused("it needs over " + std::to_string(limits_.states) +
                    " states, the limit `states`");
    }
    spend();
  }
  void check_positions(std::size_t count) {
    if (count > limits_.positions) {
      throw refused("it needs over " + std::to_string(limits_.positions) +
                    " positions, the limit `positions`");
    }
    spend();
  }

 private:
  using clock = std::chrono::steady_clock;
  static constexpr std::size_t look_at_ = 1024;

  compile_limits limits_;
  clock::time_point until_;
  std::size_t spent_ = 0;
};

/// A message on one line: control characters, which names of the user may have, are escaped.
[[nodiscard]] inline std::string one_line(const std::string& message) {
  constexpr const char* digits = "0123456789abcdef";
  std::string out;
  for (const char c : message) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += "\\u00";
      out += digits[byte >> 4U];
      out += digits[byte & 15U];
    } else {
      out += c;
    }
  }
  return out;
}

/// Calls compile(budget), and makes a value of what it returns or throws.
template <class Compile>
[[nodiscard]] compiled guarded(const compile_limits& limits, const Compile& compile) {
  compiled out;
  try {
    budget left(limits);
    out.bytes = compile(left);
  } catch (const refused& error) {
    out.refused = error.why();
    out.refused->message = one_line(out.refused->message);
  } catch (const std::bad_alloc&) {
    out.refused = refusal{"there is not enough memory", "", 0};
  }
  return out;
}

}  // namespace UNMASK_NAMESPACE::detail::languages
