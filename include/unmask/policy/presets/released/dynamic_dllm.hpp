// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/policy.hpp>
#include <unmask/policy/cache/cache.hpp>
#include <unmask/policy/commit/adaptive.hpp>
#include <unmask/policy/layers/cache_budget.hpp>
#include <unmask/policy/presets/released/fast_dllm.hpp>
#include <unmask/policy/ranking.hpp>

/// Adaptive thresholds as released with Dynamic-dLLM: Fast-dLLM's loop and test, with thresholds
/// that start once, are never reset nor bounded, and change from the second step on.
///
/// Source: TianyiWu233/DYNAMIC-DLLM 43cb93b, `update_pd_threshold` and `generate_pd` of
/// `utils/generate_function.py`.
namespace UNMASK_NAMESPACE::released {

/// One threshold for all positions. In each step but the first, with means over the masked
/// positions of the block, p2 the second probability and p' the row of the previous step:
///     t += -lower mean(1 - p2) + raise mean(1 - cos(p, p')).
/// Commits if confidence >= t. The rows after the block are read as well, because their change
/// counts from the block's first step on; the window must have room for the answer.
/// Range: start in [0, 1], lower and raise >= 0; the defaults are the code's. Reads
/// stat::confidence, margin, drift.
/// Source: pd_mode 1.
struct falling_threshold {
  float start = 1.0F;
  float lower = 0.01F;
  float raise = 0.15F;

  struct sequence_state : semi_autoregressive::sequence_state {
    float shift = 0.0F;
  };
  struct step_reduction {
    index_t count = 0;
    float clear = 0.0F;  ///< sum of 1 - p2
    float drift = 0.0F;
    UNMASK_HD void merge(const step_reduction& other) {
      count += other.count;
      clear += other.clear;
      drift += other.drift;
    }
  };

  static constexpr statistics required = stat::confidence | stat::margin | stat::drift;

  static constexpr part_label label{"falling_threshold"};
  static constexpr knob<falling_threshold> knobs[] = {
      {"start", &falling_threshold::start, within(0, 1)},
      {"lower", &falling_threshold::lower, at_least(0)},
      {"raise", &falling_threshold::raise, at_least(0)}};

  [[nodiscard]] UNMASK_HD static constexpr bool reads_ahead() { return true; }

  UNMASK_HD step_reduction reduce(const auto& c, auto& context) const {
    return context.at.step > 0 ? step_reduction{1, 1.0F - c.second_probability(), c.drift()}
                               : step_reduction{};
  }

  /// Threshold of this step.
  [[nodiscard]] UNMASK_HD float threshold(const auto& context) const {
    return start + shift(context);
  }

  UNMASK_HD bool commits(const auto& c, const rank_info&, auto& context) const {
    return c.confidence() >= threshold(context);
  }

  UNMASK_HD void schedule(sequence_view& q, plan& next, auto& context) const {
    if (q.step > 0) {
      context.sequence.shift = shift(context);  // of the step that just ended
    }
    semi_autoregressive{}.schedule(q, next, context);
  }

 private:
  [[nodiscard]] UNMASK_HD float shift(const auto& context) const {
    if (context.step_reduction.count == 0) {
      return context.sequence.shift;
    }
    const auto count = static_cast<float>(context.step_reduction.count);
    const float lowered = math::fma(
        -lower, math::divide(context.step_reduction.clear, count), context.sequence.shift);
    return math::fma(raise, math::divide(context.step_reduction.drift, count), lowered);
  }
};
static_assert(step_reducing<falling_threshold> && commit_rule<falling_threshold> &&
              scheduling<falling_threshold> && reading_ahead<falling_threshold>);

/// cache_budget as released with Dynamic-dLLM: budgets that are equal up to rounding, the first
/// layer always complete, the answer ranked alone, and one window of constant size around the
/// rightmost of the last committed tokens, computed in addition to the budget.
///
/// `Feature` is feature::value, as its scripts select, or feature::input. The mean of a layer in a
/// pass that refreshes is of the values just stored, that is 0, or of every fourth input. Source:
/// `_do_partial_selection`, `_compute_sim_for_budget_full_refresh` and
/// `_get_centered_window_indices` of `dynamic_dllm_cache/hooks/cache_hook_LLaDA.py`.
template <feature Feature = feature::value>
[[nodiscard]] constexpr auto cache_budget_released(index_t budget = 32, index_t window = 32) {
  basic_cache_budget<Feature> rule;
  rule.budget = budget;
  rule.window = window;
  rule.full_layers = 1;
  rule.share = sharing::released;
  rule.scope = budget_scope::outside_window;
  rule.answer_only = true;
  rule.latest_only = true;
  rule.whole_window = true;
  rule.refresh_stride = Feature == feature::value ? 0 : 4;
  return rule;
}

/// Refreshes of the release: prompt and answer every 5,000 passes, that is in the first one only;
/// the other passes do not run the prompt. Source: `prompt_interval_steps` and
/// `gen_interval_steps` of `scripts/run_LLaDA_gsm8k_Instruct.sh`. Its demo has 100 and 7.
[[nodiscard]] constexpr interval_cache dynamic_dllm_cache() {
  return {.prompt_period = 5000, .answer_period = 5000};
}

/// Dynamic-dLLM with one threshold, pd_mode 1; with the default of pd_threshold 1.
[[nodiscard]] constexpr auto dynamic_dllm_scalar(const falling_threshold& threshold = {}) {
  return policy{by_confidence{}, threshold};
}

/// Dynamic-dLLM with a threshold for each token, pd_mode 2: moved from the second step on. The
/// defaults are the paper's.
[[nodiscard]] constexpr auto dynamic_dllm_per_token(adaptive_threshold thresholds = {}) {
  thresholds.begin = 1;
  return policy{by_confidence{}, thresholds};
}

/// Dynamic-dLLM with a constant threshold, pd_mode 0: Fast-dLLM's.
[[nodiscard]] constexpr auto dynamic_dllm_fixed(float threshold) {
  return fast_dllm_threshold(threshold);
}

}  // namespace unmask::released
