// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/knob.hpp>
#include <unmask/core/layer.hpp>

#include <cstdint>

namespace UNMASK_NAMESPACE {

/// Shares `total` out in proportion to `weights`, by largest remainder: floors first, then one each
/// to the largest fractions, equals to the lower index. The shares sum exactly to `total`. A weight
/// below 0 counts as 0: the mean change of a layer at which nothing changed may be a rounding.
///
/// Equal shares (the first ones one more) if a weight is not finite, or none is above 0.
/// O(count^2), `total` >= 0.
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
  // Floors of numbers that sum to `total` up to rounding leave fewer than `count`.
  while (left > 0) {
    index_t best = 0;
    for (index_t i = 1; i < count; ++i) {
      best = exact(i) - shares[i] > exact(best) - shares[best] ? i : best;
    }
    ++shares[best];
    --left;
  }
}

/// A change that is no infinity, which would leave the quota; NaN stays NaN.
[[nodiscard]] UNMASK_HD inline float finite_change(float drift) {
  return drift > 1e30F ? 1e30F : drift;
}

/// How the budget of all layers becomes that of each.
enum class sharing : unsigned char {
  by_change,  ///< in proportion to the mean change at the layer in the last pass; sums to the total
  /// The released code's, whose weights are equal up to rounding: int(32 budget / layers), the
  /// constant being its number of layers; plain `budget` in the second pass.
  released
};

/// The positions that spend a layer's budget.
enum class budget_scope : unsigned char {
  /// All ranked positions: those near the last committed token are computed whether they are among
  /// the most changed ones or not, and those that are take their places (algorithm 1, line 15).
  all,
  /// The positions that are not near the last committed token, which are computed besides: each
  /// layer computes that many more (the released code).
  outside_window
};

/// Layer rule with a budget of positions that is shared out among the layers. Each layer computes
/// as many positions as its share, those whose `Feature` changed most since the pass before, and
/// those near the last committed token. The others go on with the stored outputs of the layer.
///
/// The change is d = 1 - cos(now, stored), every position's row being stored in each pass. A layer
/// whose mean change over the ranked positions was s gets its share, by largest remainder, of
///     budget layers s / (sum of s over the layers);
/// equal shares in the first pass that may skip, and if nothing changed. Computed whatever the
/// budget: positions p - window / 2 .. p + window / 2 around each token that the last step
/// committed; everything at the first `full_layers` layers. `scope` tells whether the former are
/// within the budget where they rank so high. Equals go to the lower position.
///
/// `answer_only` ranks the answer; the prompt is computed in the passes that run it. `latest_only`
/// takes the rightmost committed token alone, and `whole_window` moves its window into the answer
/// instead of cutting it. `refresh_stride` > 1 takes the mean of a refreshing layer over every n-th
/// ranked position only, 0 takes none.
///
/// Without a cache everything is run in each pass and computed whole in the first one alone, as in
/// algorithm 1, where the prompt is ranked, too; interval_cache with periods computes it whole from
/// time to time, as the released code can. cache_budget_of() has the budget for a long answer.
///
/// State: 8 bytes a layer; the engine lends the feature's width in numbers a position and layer,
/// and keeps the attention and feed-forward outputs as well as K/V. Range: budget, window,
/// full_layers, refresh_stride >= 0. O(fed) a layer, O(layers^2) a pass. Source: T. Wu et al.,
/// Dynamic-dLLM (2026), section 3.1, equations 4 to 7, algorithm 1, and section 4.1 for the
/// defaults; its rounding is open there. The release is released::cache_budget_released().
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
  static constexpr skipping skipped = skipping::stays;
  static constexpr bool stores_all = true;

  static constexpr part_label label{
      "cache_budget",
      "cache_budget",
      "each layer computes as many positions as it changed lately; goes with interval_cache"};
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

  UNMASK_HD bool counts(const layer_row& row, const layer_info& l, const auto& own) const {
    const index_t rank = row.position - first_ranked(own);
    const bool whole = l.refresh || l.layer < full_layers;
    return rank >= 0 && (!whole || (refresh_stride > 0 && rank % refresh_stride == 0));
  }

  UNMASK_HD void
  allocate(const float* means, index_t* budgets, index_t layers, const auto& own) const {
    if (share == sharing::by_change) {
      share_out(means, layers, math::min(budget, max_rows / layers) * layers, budgets);
      return;
    }
    const float weight = math::divide(1.0F, static_cast<float>(layers));
    const auto equal = static_cast<index_t>(
        math::min(32.0F * static_cast<float>(budget) * weight, static_cast<float>(max_rows)));
    for (index_t l = 0; l < layers; ++l) {
      budgets[l] = own.at.step >= 2 ? equal : budget;
    }
  }

  UNMASK_HD float importance(const layer_row& row, const layer_info& l, const auto& own) const {
    const bool computed =
        l.layer < full_layers || row.position < first_ranked(own) ||
        (scope == budget_scope::outside_window && is_near(row.position, *own.at.view));
    return computed ? math::infinity() : finite_change(row.drift);
  }

  UNMASK_HD bool mandatory(const layer_row& row, const layer_info&, const auto& own) const {
    return scope == budget_scope::all && is_near(row.position, *own.at.view);
  }

  UNMASK_HD index_t quota(const layer_info& l, const auto&) const { return l.budget; }

  /// The budget, and what is computed whatever it changed: an upper bound, as both may overlap.
  [[nodiscard]] index_t most(const layer_info& l, const layout& g, range feed) const {
    if (l.layer < full_layers) {
      return l.present;
    }
    const index_t windows = latest_only ? 1 : math::max(l.commits, 1);
    const std::int64_t near = std::int64_t{windows} * (window / 2 * 2 + 1);
    const index_t prompt = answer_only ? math::max(g.prompt - feed.first, 0) : 0;
    const std::int64_t sum = l.budget + near + prompt;
    return sum < l.present ? static_cast<index_t>(sum) : l.present;
  }

  /// The positions around `centre` that are computed whatever they changed.
  [[nodiscard]] UNMASK_HD range window_of(index_t centre, const sequence_view& q) const {
    const index_t radius = window / 2;
    range near{centre - radius, centre + radius + 1};
    if (whole_window) {
      const range answer{q.prompt, q.length};
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
  [[nodiscard]] UNMASK_HD index_t first_ranked(const auto& own) const {
    return answer_only ? own.at.view->prompt : 0;
  }

  [[nodiscard]] UNMASK_HD bool is_near(index_t position, const sequence_view& q) const {
    if (latest_only || q.commit_count == 0) {
      return q.latest >= 0 && window_of(q.latest, q).contains(position);
    }
    return q.wrote_in({position - window / 2, position + window / 2 + 1});
  }
};

/// The published rule, which ranks the layers' inputs.
using cache_budget = basic_cache_budget<>;
static_assert(counting<cache_budget> && mandating<cache_budget> && allocating<cache_budget> &&
              storing_all<cache_budget> && bounding<cache_budget>);

/// The budget, and the window, for answers of `length` positions: an eighth of them, rounded up; 32
/// for 256. Range length >= 0. Source: Dynamic-dLLM (2026), appendix E.1, where both are that, and
/// the defaults lose accuracy from 1,024 positions on (table 5).
[[nodiscard]] constexpr index_t cache_budget_of(index_t length) {
  return length / 8 + (length % 8 != 0 ? 1 : 0);
}

/// Computes, at each layer, the share of the answer whose `Feature` changed most since it was last
/// computed here: int(share * answer), by 1 - cos(now, stored). The others go on with the stored
/// outputs of the layer; the prompt is computed in the passes that run it. Goes with
/// interval_cache.
///
/// The engine lends memory as for cache_budget. Range: share in [0, 1]. Equals go to the lower
/// position. O(fed) a layer. Source: Z. Liu et al., dLLM-Cache (2025), its V-verify.
template <feature Feature = feature::value>
struct basic_similarity_refresh {
  double share = 0.25;

  static constexpr statistics required = stat::none;
  static constexpr feature reads = Feature;
  static constexpr drift_terms measures = cosine_terms;
  static constexpr skipping skipped = skipping::stays;
  static constexpr bool stores_all = true;

  static constexpr part_label label{
      "similarity_refresh",
      "similarity_refresh",
      "each layer computes the share of the answer that changed most; goes with interval_cache"};
  static constexpr knob<basic_similarity_refresh> knobs[] = {
      {"share", &basic_similarity_refresh::share, within(0, 1)}};

  UNMASK_HD constexpr bool hooks(index_t, index_t) const { return true; }
  UNMASK_HD float measure(const drift_sums& d) const { return cosine_distance(d); }
  UNMASK_HD float importance(const layer_row& row, const layer_info&, const auto& own) const {
    return row.position < own.at.view->prompt ? math::infinity() : finite_change(row.drift);
  }
  UNMASK_HD index_t quota(const layer_info&, const auto& own) const {
    return share_of(own.at.view->length - own.at.view->prompt);
  }
  /// The share, and the prompt where it is run.
  [[nodiscard]] index_t most(const layer_info&, const layout& g, range feed) const {
    return share_of(g.length - g.prompt) + math::max(g.prompt - feed.first, 0);
  }

 private:
  [[nodiscard]] UNMASK_HD index_t share_of(index_t answer) const {
    return static_cast<index_t>(share * answer);
  }
};

using similarity_refresh = basic_similarity_refresh<>;
static_assert(storing_all<similarity_refresh> && !allocating<similarity_refresh> &&
              bounding<similarity_refresh>);

}  // namespace unmask
