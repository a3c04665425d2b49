// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named/choice.hpp>
#include <unmask/policy/cache/cache.hpp>
#include <unmask/policy/cache/suffix_window.hpp>

namespace UNMASK_NAMESPACE {

/// Runs everything in each pass: no cache.
struct whole_passes {
  static constexpr statistics required = stat::none;
  UNMASK_HD void feed(const sequence_view&, plan&, auto&) const {}
};

/// A cache as a value, or none, and with `drops_keys` key_eviction. delayed_cache is for
/// any_picking_cache.
struct any_cache {
  using rules = choice_of<whole_passes,
                          prefix_cache,
                          dual_cache,
                          block_cache,
                          interval_cache,
                          suffix_window,
                          delayed_cache>;
  rules rule;
  key_eviction dropped = {};
  bool drops_keys = false;

  struct sequence_state {
    rules::sequence_states of_rule;
    key_eviction::sequence_state of_dropped;
  };
  static constexpr statistics required = rules::required | key_eviction::required;

  void check(const layout& g) const {
    rule.visit_on_host([&g](const auto& r) { check_part(r, g); });
    check_part(dropped, g);
  }
  UNMASK_HD void feed(const sequence_view& q, plan& next, auto& own) const {
    struct scope_of_rule {
      no_state state;
      rules::sequence_states& sequence;
      no_state tally;
      const step_info& at;
    };
    scope_of_rule one{{}, own.sequence.of_rule, {}, own.at};
    rule.visit_with(one, [&](const auto& r, auto& inner) { r.feed(q, next, inner); });
  }
  UNMASK_HD eviction evicts(const sequence_view& q, const plan& next, auto& own) const {
    no_state none;
    scope<key_eviction> one{none, own.sequence.of_dropped, none, own.at};
    return drops_keys ? dropped.evicts(q, next, one) : eviction::none;
  }
};

/// The same for sessions that run single positions.
struct any_picking_cache : any_cache {
  UNMASK_HD bool feeds(const layer_row& row, const auto& own) const {
    return rule.visit([&](const auto& r) {
      if constexpr (picking<std::remove_cvref_t<decltype(r)>>) {
        return r.feeds(row, own);
      } else {
        return true;
      }
    });
  }
};
static_assert(caching<any_cache> && evicting<any_cache> && picking<any_picking_cache>);

}  // namespace unmask
