// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <sstream>
#include <string>
#include <utility>

#include "goldens/json_node.hpp"

namespace unmask::goldens {

/// Everything that can be streamed, put together. (g++ 12 warns about "a" + std::to_string(b).)
template <class... Parts>
[[nodiscard]] std::string text(const Parts&... parts) {
  std::ostringstream stream;
  (stream << ... << parts);
  return stream.str();
}

/// Result of one line.
struct verdict {
  bool passed = false;
  /// For a failure: the place, the expected and the actual value. For a pass: a remark, or nothing.
  /// For a line that was not replayed: the reason.
  std::string detail;
  bool skipped = false;

  [[nodiscard]] static verdict pass(std::string remark = {}) { return {true, std::move(remark)}; }
  [[nodiscard]] static verdict fail(std::string what) { return {false, std::move(what)}; }
  [[nodiscard]] static verdict skip(std::string why) { return {false, std::move(why), true}; }
};

/// Runs one line through the library. Throws schema_error for a line that is not of its schema.
using line_check = verdict (*)(const node&);

}  // namespace unmask::goldens
