// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "demo/call_text.hpp"

namespace demo {

/// One line of the table of caches.
struct known_cache {
  std::string_view name;
  std::string_view about;
  std::vector<knob> knobs;
  /// The parts that it stands for, with a {hole} for each knob and {knob^2} for its square; empty
  /// for none.
  std::string_view text;
};

/// Every cache that the demo knows: a new one is one more entry in caches.cpp.
std::span<const known_cache> known_caches();

/// A cache with its knobs set.
class chosen_cache {
 public:
  /// No cache: every pass is a full forward.
  chosen_cache();
  /// Reads `name`, `name(8)` or `name(knob=8, ...)`. Throws std::invalid_argument as chosen_policy.
  explicit chosen_cache(std::string_view text);

  const std::string& label() const { return label_; }
  /// The parts that a policy's text is extended with; empty for none.
  const std::string& text() const { return text_; }
  bool is_none() const { return text_.empty(); }

 private:
  std::string label_;
  std::string text_;
};

/// The table as text, for --help.
std::string list_of_caches();

}  // namespace demo
