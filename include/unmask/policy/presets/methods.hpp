// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/policy.hpp>
#include <unmask/policy/beam.hpp>
#include <unmask/policy/cache/cache.hpp>
#include <unmask/policy/commit/adaptive.hpp>
#include <unmask/policy/commit/calibrated_threshold.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/commit/entropy_below.hpp>
#include <unmask/policy/layers/cache_budget.hpp>
#include <unmask/policy/layers/early_skip.hpp>
#include <unmask/policy/logits/credit.hpp>
#include <unmask/policy/logits/eos.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/schedule/pipeline.hpp>
#include <unmask/policy/schedule/self_speculation.hpp>

/// Complete methods: each function returns the policy of a paper, with the published values as
/// defaults. Where the released code has other values, they are in released.hpp, whose parts and
/// presets may be passed here; the loops of released code are separate presets there.
///
/// The block length is sequence_shape::block_length; each method names the
/// lengths of its paper. Details that a paper leaves open (ties, roundings, invalid rows) are as in
/// the parts. No function stops at an EOS token, unless it says so: with(credit_decoding(),
/// stop_at_eos{}) does.
namespace UNMASK_NAMESPACE::methods {

/// A policy with the parts of `method` and `more`, in this order. Errors as policy: at most one
/// schedule, one cache, and so on.
template <class... Parts, class... More>
[[nodiscard]] constexpr auto with(const policy<Parts...>& method, const More&... more) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return policy{method.template given<I>()..., more...};
  }(std::index_sequence_for<Parts...>{});
}

/// Credit Decoding: trace credit under a threshold, confidence >= `threshold`.
///
/// The paper gives no threshold; 0.9 is from Fast-dLLM, its baseline. Blocks of 64, answers of
/// 256: with 64 slots the rule is exact in blocks of up to 64 positions. Most of its tables are
/// with early stop: stop_at_eos. Released: credit_released, and released::dinfer_credit() for the
/// loop. Source: CreditDecoding (2025), algorithm 1, section 5.1.
template <int Slots = 64>
[[nodiscard]] constexpr auto credit_decoding(float threshold = 0.9F,
                                             const trace_credit<Slots>& credit = {}) {
  return policy{by_confidence{}, unmask::threshold{threshold, true}, credit};
}

/// Credit Decoding without settings of the credit: the committed share of the answer is strength
/// and decay. Source: CreditDecoding (2025), section 4.3, CD-Adaptive of table 2; the threshold as
/// in credit_decoding().
[[nodiscard]] constexpr auto credit_decoding_adaptive(float threshold = 0.9F) {
  return policy{by_confidence{}, unmask::threshold{threshold, true}, adaptive_credit<>{}};
}

/// d3LLM's decoding without a cache: the least uncertain token of all blocks, every token of an
/// entropy of `value` nats or less, and one of the first block that is not complete; a block joins
/// when a tenth of the one before it is committed, at most one in each pass.
///
/// Blocks of 32. The session's window must hold up to 64 blocks, or the answer. With early stop:
/// stop_at_eos, which ends the decode when all tokens left of the EOS token are committed; the
/// release fills the positions right of it in the pass that commits it. The release's threshold of
/// a decoded block (0.95) has no effect without a cache. Source: d3LLM (2026), its multi-block
/// decoding, as released.
[[nodiscard]] constexpr auto d3llm(float value = 0.5F, float add = 0.1F) {
  return policy{by_entropy{},
                entropy_below{value},
                block_pipeline{.add = add,
                               .activate = 1.0F,
                               .at_once = max_active_blocks,
                               .whole_canvas = true,
                               .ends_at_eos = false}};
}

/// Linear self-speculation: drafts in one bidirectional pass, checked in a causal one. With
/// `threshold` above 0 drafts commit at this confidence or more, the best one at least.
///
/// Source: `linear_spec_generate` of mlx-vlm for Nemotron-Labs-Diffusion, whose windows are
/// `window` = min(block length, 32) and `start` = min(block length, 8); it stops at an EOS token:
/// stop_at_eos.
[[nodiscard]] constexpr auto linear_spec(float threshold = 0.0F,
                                         const self_speculation& checks = {}) {
  return policy{by_confidence{}, unmask::threshold{threshold, true}, checks};
}

/// SOAR: up to five tokens of a confidence above `threshold` at once, otherwise the best `width`
/// orders of single tokens in one batch.
///
/// Scores are sums of confidences; the paper's are of their logarithms: beam::log_scores. Source:
/// SOAR (2026), as released, whose number of steps is max_steps.
[[nodiscard]] constexpr auto soar(index_t width = 2, float threshold = 0.95F) {
  return policy{by_confidence{}, at_most{5, unmask::threshold{threshold}}, beam{width}};
}

/// The refreshes of Dynamic-dLLM: every position enters each pass, and only the first one computes
/// everything. Source: Dynamic-dLLM (2026), algorithm 1, lines 1 to 6. (The intervals in its
/// appendix B.2 belong to the methods that it is compared with.)
[[nodiscard]] constexpr interval_cache dynamic_dllm_cache() {
  return {.prompt_period = 1, .answer_period = 0};
}

/// Dynamic-dLLM's cache budgets without its thresholds, one token a pass: Dynamic-dLLM without an
/// asterisk in tables 1 to 3. For engines with hooks in their layers. Source: as dynamic_dllm(),
/// section 3.1.
template <feature Feature = feature::input>
[[nodiscard]] constexpr auto
dynamic_cache_updating(const basic_cache_budget<Feature>& budgets = {},
                       const interval_cache& cache = dynamic_dllm_cache()) {
  return policy{by_confidence{}, tokens_per_step{1}, budgets, cache};
}

/// Dynamic-dLLM: cache budgets and adaptive thresholds together, its Dynamic-dLLM*. For engines
/// with hooks in their layers.
///
/// In algorithm 1, line 3, the prediction of the first pass commits by the decoding that the method
/// is added to; here the threshold, which has not moved yet, also decides in that pass.
///
/// Blocks of 32, answers of 256, or 512 for HumanEval. For longer answers both budget and window
/// are cache_budget_of(length). Positions that a layer does not compute stay in the pass and have
/// logits, so every masked position's row is compared and its threshold moves in each step from the
/// third on. session_capacity::window must hold the answer.
/// Released: released::cache_budget_released() with released::dynamic_dllm_cache(), and
/// released::dynamic_dllm_scalar() for its threshold. Source: Dynamic-dLLM (2026), algorithms 1 and
/// 2, section 4.1 (budget and window), figure 6c (start), appendix B.2 (lower and raise).
template <feature Feature = feature::input>
[[nodiscard]] constexpr auto dynamic_dllm(const basic_cache_budget<Feature>& budgets = {},
                                          const adaptive_threshold& thresholds = {},
                                          const interval_cache& cache = dynamic_dllm_cache()) {
  return policy{by_confidence{}, thresholds, budgets, cache};
}

/// ES-dLLM: early skipping, one token a pass, no EOS token right of a masked position. For engines
/// with hooks in their layers.
///
/// Half of the positions after an eighth and half of those after a quarter of the layers are
/// skipped, weight 0.5 (section 6.1). `cache` has the refresh periods, by default for GSM8K under
/// LLaDA; table 5 (LLaDA; Dream in parentheses), prompt / block:
///     GSM8K 64/16 (64/8), MATH 256/8 (256/4), BBH 64/4 (64/8), HumanEval 64/4 (64/2),
///     MBPP 64/4 (256/2);
/// and ES-dLLM*, table 6: BBH 32/4 (16/4), MBPP (8/2). Blocks of 64, of 256 for MATH; answers of
/// 256, of 512 for code (table 4). Released: released::es_dllm_fixed(), with
/// released::early_skip_released(). Source: ES-dLLM (2026), algorithm 1, section 6.1, appendix B.
///
/// Algorithm 1, line 8, stores the row of every position that reaches a layer; early_skip stores
/// the rows of the positions that the layer computes, as the release does, and says what differs.
///
/// `ends` is the rule of appendix B.2. Taken literally, it commits a run of EOS tokens from the
/// left only, one a pass: stop_at_eos ends the decode instead, and eos_gate{.until_first = true},
/// the rule of the release, commits them together once there is one.
template <feature Indicator = feature::hidden>
[[nodiscard]] constexpr auto es_dllm(const basic_early_skip<Indicator>& skip = {},
                                     const block_cache& cache = {},
                                     const eos_gate& ends = {}) {
  return policy{by_confidence{}, tokens_per_step{1}, skip, cache, ends};
}

/// ES-dLLM with parallel decoding: every position above the threshold. Released:
/// released::es_dllm_parallel(). Source: ES-dLLM (2026), appendix C.3.1; the rest as es_dllm().
template <feature Indicator = feature::hidden>
[[nodiscard]] constexpr auto es_dllm_parallel(float threshold = 0.9F,
                                              const basic_early_skip<Indicator>& skip = {},
                                              const block_cache& cache = {},
                                              const eos_gate& ends = {}) {
  return policy{by_confidence{}, unmask::threshold{threshold}, skip, cache, ends};
}

/// ES-dLLM with Sparse-dLLM's eviction: half of the keys outside the block stay, kernel size 3,
/// chosen in the second pass of a block. Source: ES-dLLM (2026), appendix C.3.2; the rest as
/// es_dllm().
template <feature Indicator = feature::hidden>
[[nodiscard]] constexpr auto es_dllm_sparse(const basic_early_skip<Indicator>& skip = {},
                                            const block_cache& cache = {},
                                            const key_eviction& eviction = {},
                                            const eos_gate& ends = {}) {
  return with(es_dllm(skip, cache, ends), eviction);
}

/// ES-dLLM with both. Source: ES-dLLM (2026), appendix C.3.3.
template <feature Indicator = feature::hidden>
[[nodiscard]] constexpr auto es_dllm_parallel_sparse(float threshold = 0.9F,
                                                     const basic_early_skip<Indicator>& skip = {},
                                                     const block_cache& cache = {},
                                                     const key_eviction& eviction = {},
                                                     const eos_gate& ends = {}) {
  return with(es_dllm_parallel(threshold, skip, cache, ends), eviction);
}

/// LoPA over one block after the other, as in table 1 over Dream as released: lookahead branches
/// under a threshold. The paper gives neither threshold nor branches for it; the defaults are the
/// same as for lopa_d2f(). Of the other scores of a branch that section 3.2 names, lookahead has
/// the mean of the least confident share; the score of a sliding window is left out. Source: LoPA
/// (2025), algorithm 1, equations 1 and 2.
template <ranking Ranking = by_confidence>
[[nodiscard]] constexpr auto lopa(const lookahead_by<Ranking>& ahead = {.branches = 14},
                                  float threshold = 0.9F) {
  return policy{ahead.order, unmask::threshold{threshold}, ahead};
}

/// LoPA with D2F: lookahead branches over pipelined blocks. session_capacity::branches must be at
/// least `ahead.branches`.
///
/// The defaults are for D2F-Dream on GSM8K; table 5, block length, blocks.add, threshold,
/// branches, with blocks.activate 0.95 throughout:
///     D2F-Dream: GSM8K 32, 0.1, 0.9, 14; MATH 16, 0.1, 0.9, 7; HumanEval and MBPP 32, 0.3, 0.95,
///     7; D2F-DiffuCoder: HumanEval+ 32, 0.3, 0.95, 6; MBPP+ 32, 0.3, 0.9, 14.
/// blocks.at_once, 8, has room for answers of 256 in blocks of 32. Released: released::lopa(),
/// which ranks by the negative entropy. Source: LoPA (2025), algorithm 1, equations 1 and 2,
/// section 3.3, appendix B.
template <ranking Ranking = by_confidence>
[[nodiscard]] constexpr auto lopa_d2f(const lookahead_by<Ranking>& ahead = {.branches = 14},
                                      float threshold = 0.9F,
                                      const block_pipeline& blocks = {}) {
  return policy{ahead.order, unmask::threshold{threshold}, ahead, blocks};
}

/// OSDT with a profile or, without one, with the static threshold for the sequence that is
/// recorded: see calibrated_threshold and calibrating(). Both have the same type. No
/// code was released. Source: OSDT (2025), algorithm 1.
template <int Cells = 256>
[[nodiscard]] constexpr auto osdt(const calibrated_threshold<Cells>& profile) {
  return policy{by_confidence{}, profile};
}

/// OSDT's settings for a task, without a profile: the argument of calibrating().
/// Confidences of committed tokens are recorded; calibrated_threshold says why. In an answer of one
/// block mode `block` is a constant. Source: OSDT (2025), section 4.1, and section 4.2 for the
/// static threshold.
template <int Cells = 256>
inline constexpr calibrated_threshold<Cells> osdt_gsm8k_settings{.threshold = 0.9F,
                                                                 .cap = 0.75F,
                                                                 .slack = 0.2F,
                                                                 .mode = profile_mode::block,
                                                                 .statistic = metric::q1};
/// The settings of the paper's GPQA.
template <int Cells = 256>
inline constexpr calibrated_threshold<Cells> osdt_gpqa_settings{.threshold = 0.9F,
                                                                .cap = 0.75F,
                                                                .slack = 0.2F,
                                                                .mode = profile_mode::step_block,
                                                                .statistic = metric::median};
/// The settings of the paper's HumanEval.
template <int Cells = 256>
inline constexpr calibrated_threshold<Cells> osdt_humaneval_settings{.threshold = 0.9F,
                                                                     .cap = 0.8F,
                                                                     .slack = 0.1F,
                                                                     .mode = profile_mode::block,
                                                                     .statistic = metric::q1};

/// OSDT with the settings of a task, for the sequence that is recorded; osdt(profile) decodes the
/// others.
template <int Cells = 256>
[[nodiscard]] constexpr auto osdt_gsm8k() {
  return osdt(osdt_gsm8k_settings<Cells>);
}
/// OSDT with the settings of GPQA.
template <int Cells = 256>
[[nodiscard]] constexpr auto osdt_gpqa() {
  return osdt(osdt_gpqa_settings<Cells>);
}
/// OSDT with the settings of HumanEval.
template <int Cells = 256>
[[nodiscard]] constexpr auto osdt_humaneval() {
  return osdt(osdt_humaneval_settings<Cells>);
}

}  // namespace unmask::methods
