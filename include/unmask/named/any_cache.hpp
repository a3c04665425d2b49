// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named/own_parts.hpp>
#include <unmask/policy/cache/cache.hpp>
#include <unmask/policy/cache/entropy_cache.hpp>
#include <unmask/policy/cache/suffix_window.hpp>

namespace UNMASK_NAMESPACE {

/// Computes everything in each pass: no cache.
struct whole_passes {
  static constexpr statistics required = stat::none;
  UNMASK_HD void set_query(const sequence_view&, plan&, auto&) const {}
};

/// One of several caches, or none, selected at run time, with key_eviction if `drops_keys`.
struct any_cache {
  using rules = choice_of_stage<part_stage::cache,
                                whole_passes,
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
  using step_reduction = rules::step_reductions;
  static constexpr statistics required = rules::required | key_eviction::required;

  UNMASK_LIBRARY void check(const sequence_shape& g, const model_info& m) const;

  [[nodiscard]] statistics required_now() const {
    return rule.required_now() | (drops_keys ? key_eviction::required : stat::none);
  }

  /// True for a cache that excludes single positions.
  [[nodiscard]] UNMASK_HD bool picks_now() const { return rule.does<&part_traits::picks>(); }

  [[nodiscard]] UNMASK_HD bool reviews_now() const { return rule.does<&part_traits::reviews>(); }
  UNMASK_HD step_reduction review(const auto& c, auto& context) const {
    const step_reduction none{};
    context_of_rule one{{}, context.sequence.of_rule, none, context.at};
    return rule.visit_with(one, [&c](const auto& r, auto& inner) {
      using part = std::remove_cvref_t<decltype(r)>;
      step_reduction sum{};
      if constexpr (reviewing<part>) {
        rules::in<part>(sum) = r.review(c, inner);
      }
      return sum;
    });
  }
  [[nodiscard]] UNMASK_HD bool caches_now() const { return !rule.holds<whole_passes>(); }
  UNMASK_HD void set_query(const sequence_view& q, plan& next, auto& context) const {
    context_of_rule one{{}, context.sequence.of_rule, context.step_reduction, context.at};
    rule.visit_with(one, [&](const auto& r, auto& inner) { r.set_query(q, next, inner); });
  }
  UNMASK_HD bool in_query(const layer_row& row, const auto& context) const {
    return rule.visit([&](const auto& r) {
      using part = std::remove_cvref_t<decltype(r)>;
      if constexpr (picking<part>) {
        const no_state none;
        const layer_context<part> inner{
            none, rules::in<part>(context.sequence.of_rule), none, context.at};
        return r.in_query(row, inner);
      } else {
        return true;
      }
    });
  }
  [[nodiscard]] UNMASK_HD bool evicts_now() const { return drops_keys; }
  UNMASK_HD eviction evicts(const sequence_view& q, const plan& next, auto& context) const {
    no_state none;
    part_context<key_eviction> one{none, context.sequence.of_dropped, none, context.at};
    return dropped.evicts(q, next, one);
  }

 private:
  struct context_of_rule {
    no_state state;
    rules::sequence_states& sequence;
    const rules::step_reductions& step_reduction;
    const step_info& at;
  };
};
static_assert(picking<any_cache> && evicting<any_cache> && reviewing<any_cache>);

#if UNMASK_DEFINES
UNMASK_LIBRARY void any_cache::check(const sequence_shape& g, const model_info& m) const {
  rule.visit_on_host([&](const auto& r) { check_part(r, g, m); });
  check_part(dropped, g);
}
#endif

}  // namespace unmask
