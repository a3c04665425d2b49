// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/policy/released.hpp>
#include <unmask/unmask.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "demo/call_text.hpp"

namespace demo {

/// What decides which positions of a pass are run.
enum class feeding : unsigned char { whole, prefix, dual, block, interval, delayed };

/// What decides which positions each layer computes. Each is a type of policy of its own.
enum class layer_rule_kind : unsigned char { none, skip, budget, similarity };

/// A cache of the library chosen by a value instead of by a type, so that each policy of the table
/// is compiled once for all of them.
struct any_cache {
  feeding how = feeding::whole;
  unmask::prefix_cache prefix;
  unmask::dual_cache dual;
  unmask::block_cache block;
  unmask::interval_cache interval;
  unmask::delayed_cache delayed;
  unmask::key_eviction eviction;
  bool drops_keys = false;

  using sequence_state = unmask::prefix_cache::sequence_state;
  static constexpr unmask::statistics required = unmask::stat::none;

  void check(const unmask::layout& g) const {
    prefix.check(g);
    dual.check(g);
    block.check(g);
    interval.check(g);
    delayed.check(g);
    eviction.check(g);
  }
  UNMASK_HD void feed(const unmask::sequence_view& q, unmask::plan& next, auto& own) const {
    switch (how) {
    case feeding::whole:
      return;
    case feeding::prefix:
      return prefix.feed(q, next, own);
    case feeding::dual:
      return dual.feed(q, next, own);
    case feeding::block:
      return block.feed(q, next, own);
    case feeding::interval:
      return interval.feed(q, next, own);
    case feeding::delayed:
      return delayed.feed(q, next, own);
    }
  }
  UNMASK_HD unmask::eviction
  evicts(const unmask::sequence_view& q, const unmask::plan& next, auto& own) const {
    return drops_keys ? eviction.evicts(q, next, own) : unmask::eviction::none;
  }
};

/// The same for sessions that run single positions.
struct any_picking_cache : any_cache {
  UNMASK_HD bool feeds(const unmask::layer_row& row, const auto& own) const {
    return how != feeding::delayed || delayed.feeds(row, own);
  }
};

/// A cache and a layer rule, with their knobs set.
struct cache_setup {
  any_cache cache;
  layer_rule_kind which = layer_rule_kind::none;
  unmask::early_skip skip;
  unmask::cache_budget budget;
  unmask::similarity_refresh similarity;

  /// Whether a policy with this decides which single positions are run.
  bool layered() const { return which != layer_rule_kind::none || cache.how == feeding::delayed; }
};

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
  bool is_none() const { return setup_.cache.how == feeding::whole; }

 private:
  std::string label_;
  cache_setup setup_;
};

/// The table as text, for --help.
std::string list_of_caches();

}  // namespace demo
