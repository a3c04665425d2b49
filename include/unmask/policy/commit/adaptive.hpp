// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/schedule.hpp>

/// Per-position thresholds that depend on how the position's row changes from step to step.
namespace UNMASK_NAMESPACE {

/// Positions that adaptive_threshold tracks.
enum class threshold_scope : std::uint8_t { answer, block };

/// A threshold for each position, lowered while the row has one clear leader and raised while the
/// row changes: at each step from `begin` on,
///     t -= lower (1 - p2);  t += raise (1 - cos(p, p')),
/// with p2 the second probability and p' the row of the previous step. Commits if confidence >= t.
///
/// With scope `answer` every masked position has its threshold from the first step of the sequence
/// on, and its row is read in every step in which it has logits, long before its block is decoded.
/// A position that a cache or a layer rule leaves out of a pass keeps its threshold, and p' is the
/// row of the last pass in which it had logits. The window must have room for the answer. With
/// scope `block`, which is this library's, the threshold starts with the block and `begin` counts
/// the block's steps. `begin` is 2 in algorithm 2, in which the first prediction commits by another
/// rule and the second changes no threshold; 1 in the release.
///
/// Without `least`, t may leave [0, 1]: below 0 the position always commits, above 1 never, until
/// later changes bring it back. `least` > 0, which is this library's, keeps t in [least start, 1].
///
/// Range: start in [0, 1], lower and raise >= 0, least in [0, 1], begin >= 1. Reads
/// stat::confidence, margin, drift.
/// State: 8 bytes a position and the previous row (4 bytes a column), reset when the position
/// commits: for 256 positions of 126,464 columns 130 MB with scope answer, for a block of 32 16 MB.
/// Cost: scope answer reads the rows of all masked positions of the answer in each step.
/// Example: `adaptive_threshold(0.8, 0.1, 0, begin=1)`, rows a78 b75 c74: `a__` `abc`.
/// Source: Dynamic-dLLM (2026), section 3.2, equation 11 and algorithm 2; the defaults are from its
/// experiments (figure 6c).
struct adaptive_threshold {
  float start = 0.9F;
  float lower = 0.001F;
  float raise = 0.0008F;
  float least = 0.0F;
  threshold_scope scope = threshold_scope::answer;
  index_t begin = 2;

  struct position_state {
    float shift = 0.0F;
    bool seen = false;
  };

  static constexpr statistics required = stat::confidence | stat::margin | stat::drift;

  static constexpr part_label label{
      "adaptive_threshold",
      "a threshold for each position: falls while one token leads, rises while logits change"};
  static constexpr knob<adaptive_threshold> knobs[] = {
      {"start", &adaptive_threshold::start, within(0, 1)},
      {"lower", &adaptive_threshold::lower, at_least(0)},
      {"raise", &adaptive_threshold::raise, at_least(0)},
      {"least", &adaptive_threshold::least, within(0, 1)},
      word_knob<&adaptive_threshold::scope>("scope", "answer|block"),
      {"begin", &adaptive_threshold::begin, at_least(1)}};

  [[nodiscard]] UNMASK_HD constexpr bool reads_ahead() const {
    return scope == threshold_scope::answer;
  }

  UNMASK_HD void process(auto& row, auto& context) const {
    const index_t step = scope == threshold_scope::answer ? context.at.step : context.at.block_step;
    if (context.state.seen && step >= begin) {
      const auto now = row.total();
      const float lowered = math::fma(-lower, 1.0F - now.second_probability(), context.state.shift);
      context.state.shift = math::fma(raise, now.drift(), lowered);
      if (least > 0.0F) {
        context.state.shift =
            math::clamp(context.state.shift, math::product(least - 1.0F, start), 1.0F - start);
      }
    }
    context.state.seen = true;
  }

  /// Threshold of this step at this position.
  [[nodiscard]] UNMASK_HD float threshold(const auto& context) const {
    return start + context.state.shift;
  }

  UNMASK_HD bool commits(const auto& c, const rank_info&, auto& context) const {
    return c.confidence() >= threshold(context);
  }
};
static_assert(logits_processor<adaptive_threshold> && commit_rule<adaptive_threshold> &&
              reading_ahead<adaptive_threshold>);

/// Commits a candidate that is both confident and stable: confidence above `confidence` and, in the
/// last two steps, a divergence from the previous row below `divergence` nats. If there is none,
/// the `fallback` best candidates by the policy's ranking commit.
///
///     p > confidence,  KL(row(s), row(s - 1)) < divergence,
///     KL(row(s - 1), row(s - 2)) < divergence
///
/// Range: confidence in [0, 1], divergence >= 0, fallback >= 0. Reads stat::confidence, divergence.
/// State: 8 bytes a position and the previous row (4 bytes a column).
/// Example: `stable_and_confident(0.9, 0.01)`, rows a95 b95 c95 d95: `a___` `ab__` `abcd`.
/// Source: KLASS (2025), its stability and confidence rule with a history of two.
struct stable_and_confident {
  float confidence = 0.9F;
  float divergence = 0.01F;
  index_t fallback = 1;

  struct position_state {
    float last = 3.4e38F;  // no divergence is as large
    float before = 3.4e38F;
  };
  struct step_reduction {
    index_t ready = 0;
    UNMASK_HD void merge(const step_reduction& other) { ready += other.ready; }
  };

  static constexpr statistics required = stat::confidence | stat::divergence;

  static constexpr part_label label{
      "stable_and_confident",
      "commits tokens above confidence whose row changed by less than divergence in two steps"};
  static constexpr knob<stable_and_confident> knobs[] = {
      {"confidence", &stable_and_confident::confidence, within(0, 1)},
      {"divergence", &stable_and_confident::divergence, at_least(0).in("nats")},
      {"fallback", &stable_and_confident::fallback, at_least(0)}};

  UNMASK_HD void process(auto& row, auto& context) const {
    context.state.before = context.state.last;
    context.state.last = row.total().divergence();
  }

  UNMASK_HD step_reduction reduce(const auto& c, auto& context) const {
    return {is_ready(c, context) ? 1 : 0};
  }

  UNMASK_HD bool commits(const auto& c, const rank_info& s, auto& context) const {
    return context.step_reduction.ready > 0 ? is_ready(c, context) : s.rank < fallback;
  }

 private:
  UNMASK_HD bool is_ready(const auto& c, const auto& context) const {
    return c.confidence() > confidence && context.state.last < divergence &&
           context.state.before < divergence;
  }
};
static_assert(logits_processor<stable_and_confident> && step_reducing<stable_and_confident> &&
              commit_rule<stable_and_confident>);

}  // namespace unmask
