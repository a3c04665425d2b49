// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named/choice.hpp>
#include <unmask/policy/cache/cache.hpp>
#include <unmask/policy/cache/entropy_cache.hpp>
#include <unmask/policy/cache/suffix_window.hpp>

namespace UNMASK_NAMESPACE {

/// Computes everything in each pass: no cache.
struct whole_passes {
  static constexpr statistics required = stat::none;
  UNMASK_HD void feed(const sequence_view&, plan&, auto&) const {}
};

/// One of several caches, or none, selected at run time, with key_eviction if `drops_keys`.
/// delayed_cache and entropy_cache need any_picking_cache.
struct any_cache {
  using rules = choice_of<whole_passes,
                          prefix_cache,
                          dual_cache,
                          block_cache,
                          interval_cache,
                          suffix_window,
                          delayed_cache,
                          entropy_cache>;
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
    feed_after(rules::tallies{}, q, next, own);
  }
  UNMASK_HD eviction evicts(const sequence_view& q, const plan& next, auto& own) const {
    no_state none;
    scope<key_eviction> one{none, own.sequence.of_dropped, none, own.at};
    return drops_keys ? dropped.evicts(q, next, one) : eviction::none;
  }

 protected:
  struct scope_of_rule {
    no_state state;
    rules::sequence_states& sequence;
    const rules::tallies& tally;
    const step_info& at;
  };
  UNMASK_HD void
  feed_after(const rules::tallies& tally, const sequence_view& q, plan& next, auto& own) const {
    scope_of_rule one{{}, own.sequence.of_rule, tally, own.at};
    rule.visit_with(one, [&](const auto& r, auto& inner) { r.feed(q, next, inner); });
  }
};

/// any_cache for sessions that compute single positions.
struct any_picking_cache : any_cache {
  using tally = rules::tallies;

  UNMASK_HD tally review(const auto& c, auto& own) const {
    const tally none{};
    scope_of_rule one{{}, own.sequence.of_rule, none, own.at};
    return rule.visit_with(one, [&c](const auto& r, auto& inner) {
      using part = std::remove_cvref_t<decltype(r)>;
      tally sum{};
      if constexpr (reviewing<part>) {
        rules::in<part>(sum) = r.review(c, inner);
      }
      return sum;
    });
  }
  UNMASK_HD void feed(const sequence_view& q, plan& next, auto& own) const {
    feed_after(own.tally, q, next, own);
  }
  UNMASK_HD bool feeds(const layer_row& row, const auto& own) const {
    return rule.visit([&](const auto& r) {
      using part = std::remove_cvref_t<decltype(r)>;
      if constexpr (picking<part>) {
        const no_state none;
        const layer_scope<part> inner{none, rules::in<part>(own.sequence.of_rule), none, own.at};
        return r.feeds(row, inner);
      } else {
        return true;
      }
    });
  }
};
static_assert(caching<any_cache> && evicting<any_cache> && !reviewing<any_cache>);
static_assert(picking<any_picking_cache> && reviewing<any_picking_cache>);

}  // namespace unmask
