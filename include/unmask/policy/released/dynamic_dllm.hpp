// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/core/policy.hpp>
#include <unmask/policy/cache.hpp>
#include <unmask/policy/cache_budget.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/released/fast_dllm.hpp>

/// Adaptive thresholds as released with Dynamic-dLLM: Fast-dLLM's loop and test, with thresholds
/// that start once and are never reset nor bounded. The row of every open position right of the
/// block is read in every step, because its change since the step before counts from the block's
/// first step on.
///
/// Source: TianyiWu233/DYNAMIC-DLLM 43cb93b, `update_pd_threshold` and `generate_pd` of
/// `utils/generate_function.py`.
namespace UNMASK_NAMESPACE::released {

/// Block after block, each until it is full, with the rows of everything open behind it.
///
/// Range: at most max_active_blocks blocks; the window must hold the answer.
struct blocks_with_tail {
  struct sequence_state {
    index_t block = 0;
  };

  static void check(const layout& g) {
    const index_t answer = g.length - g.prompt;
    const index_t blocks = answer / g.block_length + (answer % g.block_length != 0 ? 1 : 0);
    check_argument(
        blocks <= max_active_blocks, "blocks of the answer", blocks, "at most max_active_blocks");
  }
  [[nodiscard]] static index_t reach(const layout& g) { return g.length - g.prompt; }

  /// Moves `block` to the first block that is not full.
  UNMASK_HD static void schedule(const sequence_view& q, plan& next, index_t& block) {
    while (block + 1 < q.blocks() && q.open_in(q.block(block)) == 0) {
      ++block;
    }
    next.score = {q.block(block).first, q.length};
    next.freeze = {0, next.score.first};
    next.first_block = block;
    next.last_block = q.blocks();
    next.forced = 1;
  }
};

/// One threshold for all positions. In each step but the first, with means over the open positions
/// of the block, p2 the second probability and p' the row of the step before:
///     t += -lower mean(1 - p2) + raise mean(1 - cos(p, p')).
/// Admits confidence >= t in the block. Range start in [0, 1], lower and raise >= 0; the defaults
/// are the code's. Reads stat::confidence, margin, drift. Source: pd_mode 1.
struct falling_threshold {
  float start = 1.0F;
  float lower = 0.01F;
  float raise = 0.15F;

  struct sequence_state {
    index_t block = 0;
    float shift = 0.0F;
  };
  struct tally {
    index_t count = 0;
    float clear = 0.0F;  ///< sum of 1 - p2
    float drift = 0.0F;
    UNMASK_HD void merge(const tally& other) {
      count += other.count;
      clear += other.clear;
      drift += other.drift;
    }
  };

  static constexpr statistics required = stat::confidence | stat::margin | stat::drift;

  void check(const layout& g) const {
    check_argument(start >= 0.0F && start <= 1.0F, "falling_threshold::start", start, "in [0, 1]");
    check_argument(lower >= 0.0F, "falling_threshold::lower", lower, "at least 0");
    check_argument(raise >= 0.0F, "falling_threshold::raise", raise, "at least 0");
    blocks_with_tail::check(g);
  }
  [[nodiscard]] index_t reach(const layout& g) const { return blocks_with_tail::reach(g); }

  UNMASK_HD tally survey(const auto& c, auto& own) const {
    const bool counts = own.at.step > 0 && own.at.block_index == own.sequence.block;
    return counts ? tally{1, 1.0F - c.second_probability(), c.drift()} : tally{};
  }

  /// The threshold of this step.
  [[nodiscard]] UNMASK_HD float threshold(const auto& own) const { return start + shift(own); }

  UNMASK_HD bool admits(const auto& c, const standing&, auto& own) const {
    return own.at.block_index == own.sequence.block && c.confidence() >= threshold(own);
  }

  UNMASK_HD void schedule(sequence_view& q, plan& next, auto& own) const {
    if (q.step > 0) {
      own.sequence.shift = shift(own);  // of the step that just ended
    }
    blocks_with_tail::schedule(q, next, own.sequence.block);
  }

 private:
  [[nodiscard]] UNMASK_HD float shift(const auto& own) const {
    if (own.tally.count == 0) {
      return own.sequence.shift;
    }
    const auto count = static_cast<float>(own.tally.count);
    const float lowered =
        math::fma(-lower, math::divide(own.tally.clear, count), own.sequence.shift);
    return math::fma(raise, math::divide(own.tally.drift, count), lowered);
  }
};
static_assert(surveying<falling_threshold> && admission<falling_threshold> &&
              scheduling<falling_threshold>);

/// A threshold of its own for each position, updated in each step but the first wherever the
/// position stands: t += -lower (1 - p2) + raise (1 - cos(p, p')). Admits confidence >= t in the
/// block.
///
/// State: 8 bytes a position and the previous row. Range and statistics as falling_threshold; the
/// defaults are the paper's. Source: pd_mode 2.
struct falling_thresholds {
  float start = 0.9F;
  float lower = 0.001F;
  float raise = 0.0008F;

  struct position_state {
    float shift = 0.0F;
    bool seen = false;
  };
  using sequence_state = blocks_with_tail::sequence_state;

  static constexpr statistics required = stat::confidence | stat::margin | stat::drift;

  void check(const layout& g) const { falling_threshold{start, lower, raise}.check(g); }
  [[nodiscard]] index_t reach(const layout& g) const { return blocks_with_tail::reach(g); }

  UNMASK_HD void revise(auto& row, auto& own) const {
    if (own.state.seen) {
      const auto now = row.total();
      const float lowered = math::fma(-lower, 1.0F - now.second_probability(), own.state.shift);
      own.state.shift = math::fma(raise, now.drift(), lowered);
    }
    own.state.seen = true;
  }

  /// The threshold of this step at this position.
  [[nodiscard]] UNMASK_HD float threshold(const auto& own) const { return start + own.state.shift; }

  UNMASK_HD bool admits(const auto& c, const standing&, auto& own) const {
    return own.at.block_index == own.sequence.block && c.confidence() >= threshold(own);
  }

  UNMASK_HD void schedule(sequence_view& q, plan& next, auto& own) const {
    blocks_with_tail::schedule(q, next, own.sequence.block);
  }
};
static_assert(revision<falling_thresholds> && admission<falling_thresholds> &&
              scheduling<falling_thresholds>);

/// cache_budget as released with Dynamic-dLLM: budgets that are equal up to rounding, the first
/// layer always whole, the answer ranked alone, one window that keeps its size, around the
/// rightmost of the last committed tokens, computed besides what the budget is spent on.
///
/// `Feature` is feature::value, as its scripts select, or feature::input. A refreshing layer's mean
/// is of the values just stored, that is 0, or of every fourth input. Source:
/// `_do_partial_selection`,
/// `_compute_sim_for_budget_full_refresh` and `_get_centered_window_indices` of
/// `dynamic_dllm_cache/hooks/cache_hook_LLaDA.py`.
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

/// Its refreshes: prompt and answer every 5,000 passes, that is in the first one alone; the prompt
/// is not run in the others. Source: `prompt_interval_steps` and `gen_interval_steps` of
/// `scripts/run_LLaDA_gsm8k_Instruct.sh`. Its demo has 100 and 7.
[[nodiscard]] constexpr interval_cache dynamic_dllm_cache() {
  return {.prompt_period = 5000, .answer_period = 5000};
}

/// Dynamic-dLLM with one threshold, pd_mode 1; with the default of pd_threshold 1.
[[nodiscard]] constexpr auto dynamic_dllm_scalar(const falling_threshold& threshold = {}) {
  return policy{by_confidence{}, threshold};
}

/// Dynamic-dLLM with a threshold for each token, pd_mode 2.
[[nodiscard]] constexpr auto dynamic_dllm_per_token(const falling_thresholds& thresholds = {}) {
  return policy{by_confidence{}, thresholds};
}

/// Dynamic-dLLM with a constant threshold, pd_mode 0: Fast-dLLM's.
[[nodiscard]] constexpr auto dynamic_dllm_fixed(float threshold) {
  return fast_dllm_threshold(threshold);
}

}  // namespace unmask::released
