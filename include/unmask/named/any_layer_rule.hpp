// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named/own_parts.hpp>
#include <unmask/policy/layers/cache_budget.hpp>
#include <unmask/policy/layers/early_skip.hpp>

namespace UNMASK_NAMESPACE {

/// Selects no positions at any layer: no layer rule.
struct whole_layers {
  static constexpr statistics required = stat::none;
  static constexpr feature reads = feature::hidden;
  static constexpr drift_terms measures = drift_terms::none;
  static constexpr skipping skipped = skipping::dropped;
  UNMASK_HD bool hooks(index_t, index_t) const { return false; }
  UNMASK_HD float measure(const drift_sums&) const { return 0.0F; }
  UNMASK_HD float importance(const layer_row&, const layer_info&, const auto&) const {
    return 0.0F;
  }
  UNMASK_HD index_t quota(const layer_info&, const auto&) const { return 0; }
};

/// One of several layer rules, or none, selected at run time. `reads` may name a tensor of the
/// layer other than the published rule's.
///
/// Its decisions are those of the selected rule.
/// Cost: it measures the terms of all rules, so reading a row takes up to twice as much arithmetic;
/// the memory that it reads and stores is the same.
struct any_layer_rule {
  using rules = choice_of_stage<part_stage::layer_rule,
                                whole_layers,
                                early_skip,
                                cache_budget,
                                similarity_refresh>;
  rules rule = {};
  feature reads = whole_layers::reads;
  skipping skipped = whole_layers::skipped;
  bool stores_all = false;
  bool allocates = false;

  any_layer_rule() = default;
  template <layer_rule Rule>
  explicit any_layer_rule(const Rule& selected, feature read = Rule::reads)
      : rule(selected)
      , reads(read)
      , skipped(Rule::skipped)
      , stores_all(detail::rule_stores_all(selected))
      , allocates(detail::rule_allocates(selected)) {}

  using position_state = rules::position_states;
  using layer_reduction = rules::layer_reductions;
  using step_reduction = rules::step_reductions;

  static constexpr statistics required = rules::required;
  static constexpr drift_terms measures = []<class... Rule>(detail::type_list<Rule...>) {
    return (Rule::measures | ...);
  }(rules::list{});

  UNMASK_LIBRARY void check(const sequence_shape& g, const model_info& m) const;

  /// False for no rule: at_layer() is then never called.
  [[nodiscard]] UNMASK_HD bool skips_now() const { return !rule.holds<whole_layers>(); }

  /// False: no state is kept at positions.
  [[nodiscard]] bool remembers_now() const { return skips_now(); }

  [[nodiscard]] UNMASK_HD bool processes_now() const {
    return rule.does<&part_traits::processes_logits>();
  }
  UNMASK_HD void process(auto& row, auto& context) const {
    rule.visit_with(context, [&row](const auto& r, auto& inner) {
      if constexpr (logits_processor<std::remove_cvref_t<decltype(r)>>) {
        r.process(row, inner);
      }
    });
  }
  [[nodiscard]] UNMASK_HD bool reduces_now() const { return rule.does<&part_traits::reduces>(); }
  UNMASK_HD step_reduction reduce(const auto& c, auto& context) const {
    return rule.reduce_with(context, c);
  }

  UNMASK_HD bool hooks(index_t layer, index_t layers) const {
    return rule.visit([=](const auto& r) { return r.hooks(layer, layers); });
  }

  UNMASK_HD float measure(const drift_sums& d) const {
    return rule.visit([&d](const auto& r) { return r.measure(d); });
  }

  UNMASK_HD layer_reduction look(const layer_row& row,
                                 const layer_info& l,
                                 const auto& context) const {
    return visit_with(context, [&](const auto& r, const auto& inner) {
      using part = std::remove_cvref_t<decltype(r)>;
      layer_reduction sum{};
      if constexpr (looking<part>) {
        rules::in<part>(sum) = r.look(row, l, inner);
      }
      return sum;
    });
  }

  UNMASK_HD bool counts(const layer_row& row, const layer_info& l, const auto& context) const {
    return visit_with(context, [&](const auto& r, const auto& inner) {
      if constexpr (counting<std::remove_cvref_t<decltype(r)>>) {
        return r.counts(row, l, inner);
      } else {
        return true;
      }
    });
  }

  UNMASK_HD void
  allocate(const float* means, index_t* budgets, index_t layers, const auto& context) const {
    visit_with(context, [&](const auto& r, const auto& inner) {
      if constexpr (allocating<std::remove_cvref_t<decltype(r)>>) {
        r.allocate(means, budgets, layers, inner);
      }
    });
  }

  UNMASK_HD bool mandatory(const layer_row& row, const layer_info& l, const auto& context) const {
    return visit_with(context, [&](const auto& r, const auto& inner) {
      if constexpr (mandating<std::remove_cvref_t<decltype(r)>>) {
        return r.mandatory(row, l, inner);
      } else {
        return false;
      }
    });
  }

  UNMASK_HD float importance(const layer_row& row, const layer_info& l, const auto& context) const {
    return visit_with(
        context, [&](const auto& r, const auto& inner) { return r.importance(row, l, inner); });
  }

  UNMASK_HD index_t quota(const layer_info& l, const auto& context) const {
    return visit_with(context, [&](const auto& r, const auto& inner) { return r.quota(l, inner); });
  }

  [[nodiscard]] UNMASK_LIBRARY index_t most(const layer_info& l,
                                            const sequence_shape& g,
                                            range query) const;

 private:
  // Calls use(rule, its own context); a rule by name keeps no state of the sequence.
  template <class Use>
  UNMASK_HD auto visit_with(const auto& context, const Use& use) const {
    return rule.visit([&](const auto& r) {
      using part = std::remove_cvref_t<decltype(r)>;
      const no_state none;
      const layer_context<part> inner{rules::in<part>(context.state),
                                      none,
                                      rules::in<part>(context.step_reduction),
                                      context.at};
      return use(r, inner);
    });
  }
};
static_assert(bounding<any_layer_rule> && looking<any_layer_rule> && counting<any_layer_rule> &&
              allocating<any_layer_rule> && !storing_all<any_layer_rule> &&
              logits_processor<any_layer_rule> && step_reducing<any_layer_rule> &&
              detail::layer_rule_value<any_layer_rule> && !detail::layer_rule_value<early_skip>);

#if UNMASK_DEFINES
UNMASK_LIBRARY void any_layer_rule::check(const sequence_shape& g, const model_info& m) const {
  rule.visit_on_host([&](const auto& r) { check_part(r, g, m); });
}

UNMASK_LIBRARY index_t any_layer_rule::most(const layer_info& l,
                                            const sequence_shape& g,
                                            range query) const {
  return rule.visit_on_host([&](const auto& r) {
    if constexpr (bounding<std::remove_cvref_t<decltype(r)>>) {
      return r.most(l, g, query);
    } else {
      return l.active;
    }
  });
}
#endif

}  // namespace unmask
