// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/layer.hpp>

namespace UNMASK_NAMESPACE {

/// From layer depth * layers on, the share `keep` of the pass is computed. In double
/// precision, because the product is truncated.
struct skip_stage {
  double depth = 1.0;  ///< Share of the layers in front of the stage.
  double keep = 1.0;   ///< Share of the positions that stay from there on.
};

/// Most stages of an early_skip.
inline constexpr index_t max_skip_stages = 8;

/// Skips the positions of least importance in the deeper layers, where
///
///     importance = weight c + (1 - weight) |h - g|_1 / (sqrt(width) |g|_2),
///
/// c is the confidence of a masked position when it last had logits (0 for others, and before), h
/// the row of `Indicator` at this layer and g the row at the same layer when the position was last
/// selected there. Skipped positions are dropped from the pass: deeper layers keep their K/V, they
/// have no logits and are not candidates in the step. Combines with a cache that refreshes from
/// time to time, such as block_cache.
///
/// A change therefore counts until the position is computed, as in the released code. Algorithm 1,
/// line 8, stores the row of every position that reaches the layer, selected or not: there a change
/// of a skipped position counts once. Measured on the tiny model of examples/tiny_llada, one token
/// a pass: with weight 0, where the change alone counts, 60 of 60 prompts are right with stored
/// rows of selected positions and 57 with those of all, of 200 prompts 197 and 193; with the
/// default weight all 60 with both (bench/stored_rows.cpp). A rule derived from this one with
/// stores_all = true is that of algorithm 1.
///
/// At the first layer of each stage the int(keep * entered) most important positions are kept. With
/// `floor` at least min(commits + 2, block length) are kept, where commits counts the last step.
/// `cap` divides the second term by its largest value at the layer, if that exceeds 1. Bonuses are
/// added to the importance: `first_masked` for the leftmost masked position, `committed` for those
/// that the last step committed (if weight < 1), `confident` for the two of highest c (if weight >
/// 0). `forgets_held`: a candidate that a part rejected counts as c = 0. A stored row of zeros has
/// length 1e-6 sqrt(width).
///
/// Range: weight in [0, 1]; keep and depth in [0, 1], keep not increasing; bonuses in [0, 1e30].
/// Reads stat::confidence.
/// State: 4 bytes a position; the engine keeps `width` numbers per position and stage.
/// Ties: the lower position.
/// Cost: O(entered) a stage.
/// Example: `tokens_per_step + early_skip(depths=[0.25], keeps=[0.5]) + block_cache`, rows a90 b80
/// c70 d60, 4 layers: computes 0-3/0-3/0-3/0-3 0-3/0-3/0-1/0-1 0-3/0-3/1-2/1-2 and so on.
/// Source: Z. Zhu et al., ES-dLLM (2026), section 5, equation 1, algorithm 1; the floor, the cap
/// and the bonuses are its released code's only: early_skip_released.
template <feature Indicator = feature::hidden>
struct basic_early_skip {
  float weight = 0.5F;
  /// The stages, ascending in depth.
  skip_stage stages[max_skip_stages] = {{0.125, 0.5}, {0.25, 0.25}};
  index_t stage_count = 2;  ///< Number of stages.
  bool floor = false;
  bool cap = false;
  float first_masked = 0.0F;
  float committed = 0.0F;
  float confident = 0.0F;
  bool forgets_held = false;

  /// Largest bonus: sums of bonuses stay finite.
  static constexpr float most_bonus = 1e30F;

  struct position_state {
    float confidence = 0.0F;
  };

  /// The two positions of highest confidence, in the order of their rank; among equals the lower
  /// position first.
  struct layer_reduction {
    index_t position[2] = {-1, -1};
    float confidence[2] = {-1.0F, -1.0F};

    UNMASK_HD void merge(const layer_reduction& other) {
      for (index_t k = 0; k < 2 && other.position[k] >= 0; ++k) {
        const bool best = other.confidence[k] > confidence[0];
        if (best) {
          position[1] = position[0];
          confidence[1] = confidence[0];
        }
        if (best || other.confidence[k] > confidence[1]) {
          position[best ? 0 : 1] = other.position[k];
          confidence[best ? 0 : 1] = other.confidence[k];
        }
      }
    }
  };
  struct step_reduction {
    UNMASK_HD void merge(const step_reduction&) {}
  };

  static constexpr statistics required = stat::confidence;
  static constexpr feature reads = Indicator;
  static constexpr drift_terms measures = drift_terms::distance_1 | drift_terms::previous;
  static constexpr skipping skipped = skipping::dropped;

  /// Sets the depths from a text's list.
  static constexpr void take_depths(basic_early_skip& s, const double* values, index_t n) {
    for (index_t i = 0; i < n; ++i) {
      s.stages[i].depth = values[i];
    }
  }
  /// Sets the shares from a text's list.
  static constexpr void take_keeps(basic_early_skip& s, const double* values, index_t n) {
    s.stage_count = n;
    for (index_t i = 0; i < n; ++i) {
      s.stages[i].keep = values[i];
    }
  }
  static constexpr part_label label{
      "early_skip", "deeper layers run the most important positions only; use with block_cache"};
  static constexpr knob<basic_early_skip> knobs[] = {
      {"weight", &basic_early_skip::weight, within(0, 1)},
      {"depths", knob_kind::reals, max_skip_stages, &take_depths, "[0.125, 0.25]"},
      {"keeps", knob_kind::reals, max_skip_stages, &take_keeps, "[0.5, 0.25]"},
      {"floor", &basic_early_skip::floor},
      {"cap", &basic_early_skip::cap},
      {"first_masked", &basic_early_skip::first_masked, within(0, most_bonus)},
      {"committed", &basic_early_skip::committed, within(0, most_bonus)},
      {"confident", &basic_early_skip::confident, within(0, most_bonus)},
      {"forgets_held", &basic_early_skip::forgets_held}};

  void check(const sequence_shape&) const {
    check_argument(stage_count >= 0 && stage_count <= max_skip_stages,
                   "early_skip::stage_count",
                   stage_count,
                   "in [0, ",
                   max_skip_stages,
                   "]");
    double before = 1.0;
    for (index_t i = 0; i < stage_count; ++i) {
      check_argument(stages[i].depth >= 0.0 && stages[i].depth <= 1.0,
                     "early_skip::stages.depth",
                     stages[i].depth,
                     "in [0, 1]");
      check_argument(stages[i].keep >= 0.0 && stages[i].keep <= before,
                     "early_skip::stages.keep",
                     stages[i].keep,
                     "in [0, 1] and at most that of the stage before, ",
                     before);
      before = stages[i].keep;
    }
  }

  /// Stores the confidence for the next pass; the step reduction skips candidates that a part
  /// rejected.
  UNMASK_HD void process(auto& row, auto& context) const {
    context.state.confidence = forgets_held ? 0.0F : row.total().confidence();
  }
  UNMASK_HD step_reduction reduce(const auto& c, auto& context) const {
    context.state.confidence = c.confidence();
    return {};
  }

  /// Share of the entered positions that layer `layer` of `layers` keeps for the next layer.
  [[nodiscard]] UNMASK_HD constexpr double kept(index_t layer, index_t layers) const {
    double keep = 1.0;
    for (index_t i = 0; i < stage_count; ++i) {
      keep = layer >= stages[i].depth * layers ? stages[i].keep : keep;
    }
    return keep;
  }

  UNMASK_HD constexpr bool hooks(index_t layer, index_t layers) const {
    return kept(layer, layers) != (layer > 0 ? kept(layer - 1, layers) : 1.0);
  }

  UNMASK_HD float measure(const drift_sums& d) const {
    const auto width = static_cast<float>(d.columns);
    const float length = math::divide(math::square_root(d.previous), math::square_root(width));
    return math::divide(math::divide(d.distance_1, width), length + 1e-6F);
  }

  UNMASK_HD layer_reduction look(const layer_row& row,
                                 const layer_info&,
                                 const auto& context) const {
    layer_reduction one;
    one.position[0] = row.position;
    one.confidence[0] = context.state.confidence;
    return one;
  }

  UNMASK_HD float importance(const layer_row& row, const layer_info& l, const auto& context) const {
    // An infinite change counts as a large one: an infinite importance would be computed in
    // addition to the quota.
    const float change = row.drift > 1e30F ? 1e30F : row.drift;
    const float largest = l.largest > 1e30F ? 1e30F : math::max(1.0F, l.largest);
    const float drift = cap ? math::divide(change, largest) : change;
    float sum = math::fma(context.state.confidence, weight, math::product(drift, 1.0F - weight));
    const bool is_confident = row.position == context.step_reduction.position[0] ||
                              row.position == context.step_reduction.position[1];
    sum += is_confident && weight > 0.0F ? confident : 0.0F;
    if (row.committed && weight < 1.0F) {
      return sum + committed;
    }
    return sum + (row.first_masked ? first_masked : 0.0F);
  }

  UNMASK_HD index_t quota(const layer_info& l, const auto&) const { return most(l, {}, {}); }

  /// The exact quota: it depends on the numbers of entered and committed positions only, and no
  /// importance is infinite.
  [[nodiscard]] UNMASK_HD index_t most(const layer_info& l, const sequence_shape&, range) const {
    const auto share = static_cast<index_t>(kept(l.layer, l.layers) * l.entered);
    return floor ? math::max(share, math::min(l.commits + 2, l.block_length)) : share;
  }
};

/// The published rule, with hidden states as the indicator.
using early_skip = basic_early_skip<>;
static_assert(bounding<early_skip> && looking<early_skip> && logits_processor<early_skip> &&
              step_reducing<early_skip>);

}  // namespace unmask
