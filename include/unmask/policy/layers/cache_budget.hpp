// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/layer.hpp>

#include <cstdint>

namespace UNMASK_NAMESPACE {

/// Distributes `total` in proportion to `weights`, by largest remainder: floors first, then one
/// each to the largest fractions. The shares sum exactly to `total`. A weight below 0 counts as 0:
/// the mean change of a layer without any change may be a rounding error. Equal shares (the first
/// ones one more) if a weight is not finite, or none is above 0.
///
/// Range: total >= 0.
/// Ties: the lower index.
/// Cost: O(count^2).
UNMASK_HD inline void
share_out(const float* weights, index_t count, index_t total, index_t* shares) {
  const auto weight = [weights](index_t i) {
    return weights[i] > 0.0F ? static_cast<double>(weights[i]) : 0.0;
  };
  double sum = 0.0;
  for (index_t i = 0; i < count; ++i) {
    const bool usable = math::is_finite(weights[i]) && sum >= 0.0;
    sum = usable ? sum + weight(i) : -1.0;
  }
  const auto exact = [&](index_t i) {
    return sum > 0.0 ? total * weight(i) / sum : static_cast<double>(total) / count;
  };
  index_t left = total;
  for (index_t i = 0; i < count; ++i) {
    shares[i] = static_cast<index_t>(exact(i));
    left -= shares[i];
  }
  // Floors of numbers whose sum is `total` up to rounding leave fewer than `count`.
  while (left > 0) {
    index_t best = 0;
    for (index_t i = 1; i < count; ++i) {
      best = exact(i) - shares[i] > exact(best) - shares[best] ? i : best;
    }
    ++shares[best];
    --left;
  }
}

/// Replaces an infinite change, which would be computed in addition to the quota, by a finite one;
/// NaN stays NaN.
[[nodiscard]] UNMASK_HD inline float finite_change(float drift) {
  return drift > 1e30F ? 1e30F : drift;
}

/// Distribution of the budget over the layers.
enum class sharing : unsigned char {
  by_change,  ///< in proportion to the mean change at the layer in the last pass; sums to the total
  /// Like the released code, whose weights are equal up to rounding: int(32 budget / layers),
  /// where 32 is its number of layers; `budget` itself in the second pass.
  released
};

/// Positions that use a layer's budget.
enum class budget_scope : unsigned char {
  /// All ranked positions: those near the last committed token are always computed; if they are
  /// among the most changed, they use places of the budget (algorithm 1, line 15).
  all,
  /// Positions that are not near the last committed token. Those near it are computed in addition,
  /// so that each layer computes that number of positions more (the released code).
  outside_window
};

/// Layer rule with a budget of positions that is distributed over the layers. Each layer computes
/// its share of positions, those whose `Feature` changed most since the previous pass, and those
/// near the last committed token. The others keep the stored outputs of the layer.
///
/// The change is d = 1 - cos(now, stored); the row of every position is stored in each pass. A
/// layer whose mean change over the ranked positions was s gets, by largest remainder,
///     budget layers s / (sum of s over the layers);
/// equal shares in the first pass that may skip, and if nothing changed. Always computed: positions
/// p - window / 2 .. p + window / 2 around each token p that the last step committed, and every
/// position at the first `full_layers` layers. `scope` decides whether the former use places of the
/// budget.
///
/// `answer_only` ranks the answer; the prompt is computed in the passes that run it. `latest_only`
/// uses the rightmost committed token only, and `whole_window` shifts its window into the answer
/// instead of cutting it. `refresh_stride` > 1 computes the mean of a layer in a pass that
/// refreshes over every n-th ranked position only, 0 over none.
///
/// Without a cache every position enters each pass, and only the first pass computes all of them,
/// as in algorithm 1, where the prompt is also ranked; with the periods of interval_cache further
/// passes compute everything, as an option of the released code. cache_budget_of() returns the
/// budget for a long answer.
///
/// Range: budget, window, full_layers, refresh_stride >= 0.
/// State: 8 bytes a layer; the engine keeps a row of the feature's width for each position and
/// layer, as well as the attention and feed-forward outputs and K/V.
/// Ties: the lower position.
/// Cost: O(entered) a layer, O(layers^2) a pass.
/// Example: `tokens_per_step + cache_budget(2, 0) + interval_cache(1, 0)`, prompt xy, rows a90 b80
/// c70, 2 layers: computes 0-4/0-4 0+2/0+2 0+3/0+3.
/// Source: T. Wu et al., Dynamic-dLLM (2026), section 3.1, equations 4 to 7, algorithm 1, and
/// section 4.1 for the defaults; the paper does not define the rounding. The release is
/// released::cache_budget_released().
template <feature Feature = feature::input>
struct basic_cache_budget {
  index_t budget = 32;
  index_t window = 32;
  index_t full_layers = 0;
  sharing share = sharing::by_change;
  budget_scope scope = budget_scope::all;
  bool answer_only = false;
  bool latest_only = false;
  bool whole_window = false;
  index_t refresh_stride = 1;

  static constexpr statistics required = stat::none;
  static constexpr feature reads = Feature;
  static constexpr drift_terms measures = cosine_terms;
  static constexpr skipping skipped = skipping::kept;
  static constexpr bool stores_all = true;

  static constexpr part_label label{
      "cache_budget",
      "each layer runs a number of positions that follows its change; use with interval_cache"};
  static constexpr knob<basic_cache_budget> knobs[] = {
      {"budget", &basic_cache_budget::budget, at_least(0)},
      {"window", &basic_cache_budget::window, at_least(0)},
      {"full_layers", &basic_cache_budget::full_layers, at_least(0)},
      word_knob<&basic_cache_budget::share>("share", "by_change|released"),
      word_knob<&basic_cache_budget::scope>("scope", "all|outside_window"),
      {"answer_only", &basic_cache_budget::answer_only},
      {"latest_only", &basic_cache_budget::latest_only},
      {"whole_window", &basic_cache_budget::whole_window},
      {"refresh_stride", &basic_cache_budget::refresh_stride, at_least(0)}};

  UNMASK_HD constexpr bool hooks(index_t, index_t) const { return true; }

  UNMASK_HD float measure(const drift_sums& d) const { return cosine_distance(d); }

  UNMASK_HD bool counts(const layer_row& row, const layer_info& l, const auto& context) const {
    const index_t rank = row.position - first_ranked(context);
    const bool whole = l.refresh || l.layer < full_layers;
    return rank >= 0 && (!whole || (refresh_stride > 0 && rank % refresh_stride == 0));
  }

  UNMASK_HD void
  allocate(const float* means, index_t* budgets, index_t layers, const auto& context) const {
    if (share == sharing::by_change) {
      share_out(means, layers, math::min(budget, max_rows / layers) * layers, budgets);
      return;
    }
    const float weight = math::divide(1.0F, static_cast<float>(layers));
    const auto equal = static_cast<index_t>(
        math::min(32.0F * static_cast<float>(budget) * weight, static_cast<float>(max_rows)));
    for (index_t l = 0; l < layers; ++l) {
      budgets[l] = context.at.step >= 2 ? equal : budget;
    }
  }

  UNMASK_HD float importance(const layer_row& row, const layer_info& l, const auto& context) const {
    const bool computed =
        l.layer < full_layers || row.position < first_ranked(context) ||
        (scope == budget_scope::outside_window && is_near(row.position, *context.at.view));
    return computed ? math::infinity() : finite_change(row.drift);
  }

  UNMASK_HD bool mandatory(const layer_row& row, const layer_info&, const auto& context) const {
    return scope == budget_scope::all && is_near(row.position, *context.at.view);
  }

  UNMASK_HD index_t quota(const layer_info& l, const auto&) const { return l.budget; }

  /// The budget plus the positions that are always computed: an upper bound, because they may
  /// overlap.
  [[nodiscard]] index_t most(const layer_info& l, const sequence_shape& g, range query) const {
    if (l.layer < full_layers) {
      return l.active;
    }
    const index_t windows = latest_only ? 1 : math::max(l.commits, 1);
    const std::int64_t near = std::int64_t{windows} * (window / 2 * 2 + 1);
    const index_t prompt = answer_only ? math::max(g.prompt_length - query.first, 0) : 0;
    const std::int64_t sum = l.budget + near + prompt;
    return sum < l.active ? static_cast<index_t>(sum) : l.active;
  }

  /// Positions around `centre` that are always computed.
  [[nodiscard]] UNMASK_HD range window_of(index_t centre, const sequence_view& q) const {
    const index_t radius = window / 2;
    range near{centre - radius, centre + radius + 1};
    if (whole_window) {
      const range answer{q.prompt_length, q.length};
      if (window >= answer.size()) {
        return answer;
      }
      if (near.first < answer.first) {
        near = {answer.first, near.last + (answer.first - near.first)};
      }
      if (near.last > answer.last) {
        near = {near.first - (near.last - answer.last), answer.last};
      }
    }
    return near;
  }

 private:
  [[nodiscard]] UNMASK_HD index_t first_ranked(const auto& context) const {
    return answer_only ? context.at.view->prompt_length : 0;
  }

  [[nodiscard]] UNMASK_HD bool is_near(index_t position, const sequence_view& q) const {
    if (latest_only || q.commit_count == 0) {
      return q.latest >= 0 && window_of(q.latest, q).contains(position);
    }
    return q.wrote_in({position - window / 2, position + window / 2 + 1});
  }
};

/// The published rule; it ranks by the layers' inputs.
using cache_budget = basic_cache_budget<>;
static_assert(counting<cache_budget> && mandating<cache_budget> && allocating<cache_budget> &&
              storing_all<cache_budget> && bounding<cache_budget>);

/// Budget, and window, for answers of `length` positions: an eighth of them, rounded up; 32 for
/// 256.
/// Range: length >= 0.
/// Source: Dynamic-dLLM (2026), appendix E.1, which uses this for both; the defaults lose accuracy
/// from 1,024 positions on (table 5).
[[nodiscard]] constexpr index_t cache_budget_of(index_t length) {
  return length / 8 + (length % 8 != 0 ? 1 : 0);
}

/// Computes, at each layer, the share of the answer whose `Feature` changed most since it was last
/// computed there: int(share * answer) positions, by 1 - cos(now, stored). The others keep the
/// stored outputs of the layer; the prompt is computed in the passes that run it. Combines with
/// interval_cache.
///
/// Range: share in [0, 1].
/// State: the engine keeps the same memory as for cache_budget.
/// Ties: the lower position.
/// Cost: O(entered) a layer.
/// Example: `tokens_per_step + similarity_refresh(0.34) + interval_cache`, prompt xy, rows a90 b80
/// c70, 1 layers: computes 0-4 2 3.
/// Source: Z. Liu et al., dLLM-Cache (2025), its V-verify.
template <feature Feature = feature::value>
struct basic_similarity_refresh {
  double share = 0.25;

  static constexpr statistics required = stat::none;
  static constexpr feature reads = Feature;
  static constexpr drift_terms measures = cosine_terms;
  static constexpr skipping skipped = skipping::kept;
  static constexpr bool stores_all = true;

  static constexpr part_label label{
      "similarity_refresh",
      "each layer runs the share of the answer that changed most; use with interval_cache"};
  static constexpr knob<basic_similarity_refresh> knobs[] = {
      {"share", &basic_similarity_refresh::share, within(0, 1)}};

  UNMASK_HD constexpr bool hooks(index_t, index_t) const { return true; }
  UNMASK_HD float measure(const drift_sums& d) const { return cosine_distance(d); }
  UNMASK_HD float importance(const layer_row& row, const layer_info&, const auto& context) const {
    return row.position < context.at.view->prompt_length ? math::infinity()
                                                         : finite_change(row.drift);
  }
  UNMASK_HD index_t quota(const layer_info&, const auto& context) const {
    return share_of(context.at.view->length - context.at.view->prompt_length);
  }
  /// The share, plus the prompt in passes that run it.
  [[nodiscard]] index_t most(const layer_info&, const sequence_shape& g, range query) const {
    return share_of(g.length - g.prompt_length) + math::max(g.prompt_length - query.first, 0);
  }

 private:
  [[nodiscard]] UNMASK_HD index_t share_of(index_t answer) const {
    return static_cast<index_t>(share * answer);
  }
};

/// The published rule, which compares the values.
using similarity_refresh = basic_similarity_refresh<>;
static_assert(storing_all<similarity_refresh> && !allocating<similarity_refresh> &&
              bounding<similarity_refresh>);

}  // namespace unmask
