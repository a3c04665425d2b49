// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/policy/released.hpp>
#include <unmask/unmask.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "demo/call_text.hpp"
#include "named/named_session.hpp"

namespace demo {

using cache_setup = example::layer_setup;

/// One line of the table of caches.
struct known_cache {
  std::string_view name;
  std::string_view about;
  std::vector<knob> knobs;
  cache_setup (*make)(const knob_values&);
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
  const cache_setup& setup() const { return setup_; }
  bool is_none() const { return setup_.cache.how == unmask::feeding::whole; }

 private:
  std::string label_;
  cache_setup setup_;
};

/// The table as text, for --help.
std::string list_of_caches();

}  // namespace demo
