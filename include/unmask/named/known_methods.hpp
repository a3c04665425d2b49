// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named/known_part.hpp>

namespace UNMASK_NAMESPACE {

namespace detail::table {

inline constexpr known_method methods[] = {
    {"credit_decoding",
     "CreditDecoding: a threshold on logits that are raised for tokens that were best before",
     "threshold(0.9, inclusive=true) + trace_credit"},
    {"credit_decoding_adaptive",
     "CreditDecoding without settings: the committed share of the answer is strength and decay",
     "threshold(0.9, inclusive=true) + adaptive_credit"},
    {"d3llm",
     "d3LLM: certain tokens by entropy, in blocks that start before the one before them is "
     "complete",
     "entropy_below(0.5) + by_entropy + block_pipeline(0.1, 1, 64, whole_canvas=true, "
     "ends_at_eos=false)"},
    {"dynamic_cache_updating",
     "Dynamic-dLLM without its thresholds: budgets of positions for each layer, one token a pass; "
     "needs layer hooks",
     "tokens_per_step(1) + cache_budget + interval_cache(1, 0)"},
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
    {"lopa",
     "LoPA: a threshold, and branches of the sequence with one more token each",
     "threshold(0.9) + lookahead(14)"},
    {"lopa_d2f",
     "LoPA over D2F: lookahead over blocks that start before the one before them is complete",
     "threshold(0.9) + lookahead(14) + block_pipeline"},
    {"osdt_gsm8k",
     "OSDT with its settings for GSM8K; file: a profile that has them, without one it is to be "
     "made",
     "calibrated_threshold(cap=0.75, slack=0.2, mode=block, statistic=q1)"},
    {"osdt_gpqa",
     "OSDT with its settings for GPQA; file: as osdt_gsm8k",
     "calibrated_threshold(cap=0.75, slack=0.2, mode=step_block, statistic=median)"},
    {"osdt_humaneval",
     "OSDT with its settings for HumanEval; file: as osdt_gsm8k",
     "calibrated_threshold(cap=0.8, slack=0.1, mode=block, statistic=q1)"},
    {"soar",
     "SOAR: certain tokens at once, the best two orders of uncertain ones in one batch",
     "at_most(5, threshold(0.95)) + beam"},
};

}  // namespace detail::table

}  // namespace unmask
