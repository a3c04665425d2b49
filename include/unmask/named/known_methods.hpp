// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named/known_part.hpp>
#include <unmask/policy/presets/methods.hpp>

namespace UNMASK_NAMESPACE {

namespace detail::table {

/// Refuses a profile that was not calibrated with the paper's settings of the task.
template <const calibrated_threshold<1>& Settings>
void check_settings(const named_policy& policy) {
  const calibrated_threshold<>& p = policy.commit_rule.profile();
  if (p.cap != Settings.cap || p.slack != Settings.slack || p.mode != Settings.mode ||
      p.statistic != Settings.statistic) {
    throw std::invalid_argument(
        "its profile must have been calibrated with cap " + shortest_text(Settings.cap) +
        ", slack " + shortest_text(Settings.slack) + ", " +
        (Settings.mode == profile_mode::block ? "mode block" : "mode step_block") + " and the " +
        (Settings.statistic == metric::q1 ? "q1" : "median") +
        "; calibrated_threshold takes any profile");
  }
}

inline constexpr known_method methods[] = {
    {"credit_decoding",
     "CreditDecoding: a threshold on logits that are raised for tokens that were best before",
     "threshold(0.9, inclusive=true) + trace_credit"},
    {"d3llm",
     "d3LLM: certain tokens by entropy, in blocks that start before the one before them is "
     "complete",
     "entropy_below(0.5) + by_entropy + block_pipeline(0.1, 1, 64, whole_canvas=true, "
     "ends_at_eos=false)"},
    {"dynamic_dllm",
     "Dynamic-dLLM: budgets of positions for each layer, adaptive thresholds; needs layer hooks",
     "adaptive_threshold + cache_budget + interval_cache(1, 0)"},
    {"es_dllm",
     "ES-dLLM: deeper layers run important positions only, one token a pass; needs layer hooks",
     "tokens_per_step(1) + early_skip + block_cache + eos_gate"},
    {"es_dllm_parallel",
     "es_dllm that commits every token above a threshold; needs layer hooks",
     "threshold(0.9) + early_skip + block_cache + eos_gate"},
    {"es_dllm_sparse",
     "es_dllm with Sparse-dLLM's eviction of keys; needs layer hooks",
     "tokens_per_step(1) + early_skip + block_cache + eos_gate + key_eviction"},
    {"es_dllm_parallel_sparse",
     "es_dllm_parallel with Sparse-dLLM's eviction of keys; needs layer hooks",
     "threshold(0.9) + early_skip + block_cache + eos_gate + key_eviction"},
    {"linear_spec",
     "linear self-speculation: drafts in one pass, checked in a causal one; needs causal attention",
     "threshold(0, inclusive=true) + self_speculation"},
    {"lopa_d2f",
     "LoPA over D2F: lookahead over blocks that start before the one before them is complete",
     "threshold(0.9) + lookahead(14) + block_pipeline"},
    {"osdt_gsm8k",
     "OSDT with its settings for GSM8K; file: a profile calibrated with them",
     "calibrated_threshold",
     check_settings<methods::osdt_gsm8k_settings<1>>},
    {"osdt_gpqa",
     "OSDT with its settings for GPQA; file: a profile calibrated with them",
     "calibrated_threshold",
     check_settings<methods::osdt_gpqa_settings<1>>},
    {"osdt_humaneval",
     "OSDT with its settings for HumanEval; file: a profile calibrated with them",
     "calibrated_threshold",
     check_settings<methods::osdt_humaneval_settings<1>>},
    {"soar",
     "SOAR: certain tokens at once, the best two orders of uncertain ones in one batch",
     "at_most(5, threshold(0.95)) + beam"},
};

}  // namespace detail::table

}  // namespace unmask
