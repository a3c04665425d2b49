// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/policy/cache.hpp>

namespace UNMASK_NAMESPACE {

/// What decides which positions of a pass are run.
enum class feeding : std::uint8_t { whole, prefix, dual, block, interval, delayed };

/// prefix_cache, dual_cache, block_cache or interval_cache as a value, or none of them, and with
/// `drops_keys` key_eviction. feeding::delayed is for any_picking_cache.
struct any_cache {
  feeding how = feeding::whole;
  prefix_cache prefix = {};
  dual_cache dual = {};
  block_cache block = {};
  interval_cache interval = {};
  delayed_cache delayed = {};
  key_eviction dropped = {};
  bool drops_keys = false;

  using sequence_state = detail::block_clock;
  static constexpr statistics required = stat::none;

  void check(const layout& g) const {
    check_part(prefix, g);
    check_part(dual, g);
    check_part(block, g);
    check_part(interval, g);
    check_part(delayed, g);
    check_part(dropped, g);
  }
  UNMASK_HD void feed(const sequence_view& q, plan& next, auto& own) const {
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
  UNMASK_HD eviction evicts(const sequence_view& q, const plan& next, auto& own) const {
    return drops_keys ? dropped.evicts(q, next, own) : eviction::none;
  }
};

/// The same for sessions that run single positions.
struct any_picking_cache : any_cache {
  UNMASK_HD bool feeds(const layer_row& row, const auto& own) const {
    return how != feeding::delayed || delayed.feeds(row, own);
  }
};

}  // namespace unmask
