// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// The pieces of every fuzz target. A target is one file that says
///
///     UNMASK_FUZZ_TARGET(policy_text) { ... uses `data`, calls require() ... }
///
/// With engine.cpp it is a libFuzzer program of its own; with replay.cpp all targets are one
/// program that runs the files of their corpora.

#include <unmask/text/utf8.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace unmask::fuzz {

using bytes = std::span<const std::uint8_t>;

/// A violated promise. No std::exception, so that a target's handlers of errors let it pass.
struct violation {
  std::string what;
};

/// Throws violation unless a promise holds.
inline void require(bool holds, const std::string& promise) {
  if (!holds) {
    throw violation{promise};
  }
}

struct target {
  const char* name;
  void (*run)(bytes data);
};

/// The targets that are linked into the program.
[[nodiscard]] inline std::vector<target>& targets() {
  static std::vector<target> all;
  return all;
}

struct registration {
  registration(const char* name, void (*run)(bytes)) { targets().push_back({name, run}); }
};

[[nodiscard]] inline std::string_view text_of(bytes data) {
  return {reinterpret_cast<const char*>(data.data()), data.size()};
}

/// Whether a message is one line of printable UTF-8 that says something.
[[nodiscard]] inline bool is_message(std::string_view what) {
  bool is_text = what.size() > 10;
  while (is_text && !what.empty()) {
    const std::size_t size = detail::utf8_character_size(what);
    const auto byte = static_cast<unsigned char>(what[0]);
    is_text = size > 0 && byte >= 0x20 && byte != 0x7f;
    what.remove_prefix(is_text ? size : 0);
  }
  return is_text;
}

/// Calls work(); returns whether it did without an error of its arguments, whose message must be
/// one.
bool accepted(const auto& work) {
  try {
    work();
    return true;
  } catch (const std::invalid_argument& e) {
    require(is_message(e.what()), "a message in words, got '" + std::string(e.what()) + "'");
    return false;
  }
}

}  // namespace unmask::fuzz

#define UNMASK_FUZZ_TARGET(name)                                                                   \
  static void run_##name([[maybe_unused]] ::unmask::fuzz::bytes data);                             \
  static const ::unmask::fuzz::registration name##_target(#name, run_##name);                      \
  static void run_##name([[maybe_unused]] ::unmask::fuzz::bytes data)
