// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/policy/layers/cache_budget.hpp>
#include <unmask/policy/layers/early_skip.hpp>

namespace UNMASK_NAMESPACE {

/// early_skip, cache_budget or similarity_refresh, selected at run time, or none of them, which
/// computes everything. `reads` may name a tensor of the layer other than the published rule's.
///
/// Its decisions are those of the selected rule.
/// Cost: it measures the terms of all three rules, so reading a row takes up to twice as much
/// arithmetic; the memory that it reads and stores is the same.
struct any_layer_rule {
  enum class kind : std::uint8_t { none, skip, budget, similarity };

  kind which = kind::none;
  early_skip skip = {};
  cache_budget budget = {};
  similarity_refresh similarity = {};
  feature reads = feature::hidden;
  skipping skipped = skipping::dropped;
  bool stores_all = false;
  bool allocates = false;

  any_layer_rule() = default;
  explicit any_layer_rule(const early_skip& rule, feature read = early_skip::reads)
      : which(kind::skip)
      , skip(rule)
      , reads(read) {}
  explicit any_layer_rule(const cache_budget& rule, feature read = cache_budget::reads)
      : which(kind::budget)
      , budget(rule)
      , reads(read)
      , skipped(cache_budget::skipped)
      , stores_all(cache_budget::stores_all)
      , allocates(true) {}
  explicit any_layer_rule(const similarity_refresh& rule, feature read = similarity_refresh::reads)
      : which(kind::similarity)
      , similarity(rule)
      , reads(read)
      , skipped(similarity_refresh::skipped)
      , stores_all(similarity_refresh::stores_all) {}

  using position_state = early_skip::position_state;
  using layer_reduction = early_skip::layer_reduction;
  using step_reduction = early_skip::step_reduction;

  static constexpr statistics required = early_skip::required;
  static constexpr drift_terms measures = early_skip::measures | cache_budget::measures;
  static_assert(similarity_refresh::measures == cache_budget::measures);

  void check(const sequence_shape& g) const {
    check_part(skip, g);
    check_part(budget, g);
    check_part(similarity, g);
  }

  /// False for no rule: at_layer() is then never called.
  [[nodiscard]] bool selects() const { return which != kind::none; }

  UNMASK_HD void process(auto& row, auto& context) const { skip.process(row, context); }
  UNMASK_HD step_reduction reduce(const auto& c, auto& context) const {
    return skip.reduce(c, context);
  }

  UNMASK_HD bool hooks(index_t layer, index_t layers) const {
    switch (which) {
    case kind::none:
      return false;
    case kind::skip:
      return skip.hooks(layer, layers);
    case kind::budget:
      return budget.hooks(layer, layers);
    case kind::similarity:
      return similarity.hooks(layer, layers);
    }
    return false;
  }

  UNMASK_HD float measure(const drift_sums& d) const {
    return which == kind::skip ? skip.measure(d) : cosine_distance(d);
  }

  UNMASK_HD layer_reduction look(const layer_row& row,
                                 const layer_info& l,
                                 const auto& context) const {
    return skip.look(row, l, context);
  }

  UNMASK_HD bool counts(const layer_row& row, const layer_info& l, const auto& context) const {
    return which != kind::budget || budget.counts(row, l, context);
  }

  UNMASK_HD void
  allocate(const float* means, index_t* budgets, index_t layers, const auto& context) const {
    if (which == kind::budget) {
      budget.allocate(means, budgets, layers, context);
    }
  }

  UNMASK_HD bool mandatory(const layer_row& row, const layer_info& l, const auto& context) const {
    return which == kind::budget && budget.mandatory(row, l, context);
  }

  UNMASK_HD float importance(const layer_row& row, const layer_info& l, const auto& context) const {
    return which == kind::skip     ? skip.importance(row, l, context)
           : which == kind::budget ? budget.importance(row, l, context)
                                   : similarity.importance(row, l, context);
  }

  UNMASK_HD index_t quota(const layer_info& l, const auto& context) const {
    return which == kind::skip     ? skip.quota(l, context)
           : which == kind::budget ? budget.quota(l, context)
                                   : similarity.quota(l, context);
  }

  [[nodiscard]] index_t most(const layer_info& l, const sequence_shape& g, range query) const {
    return which == kind::skip     ? skip.most(l, g, query)
           : which == kind::budget ? budget.most(l, g, query)
                                   : similarity.most(l, g, query);
  }
};
static_assert(bounding<any_layer_rule> && looking<any_layer_rule> && counting<any_layer_rule> &&
              allocating<any_layer_rule> && !storing_all<any_layer_rule> &&
              logits_processor<any_layer_rule> && step_reducing<any_layer_rule> &&
              detail::layer_rule_value<any_layer_rule> && !detail::layer_rule_value<early_skip>);

}  // namespace unmask
