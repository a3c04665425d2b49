// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "demo/presets.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>

namespace demo {

namespace {

const std::vector<double> counts{1, 2, 4, 8, 20};
const std::vector<double> thresholds{0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99};
const std::vector<double> branched{0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1};
const std::vector<double> slacks{0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6};

// clang-format off
const std::vector<preset> policies{
    {"one", "the most probable token of the block in each pass", "tokens_per_step(1)", true},
    {"leftmost", "the leftmost k masked positions in each pass",
     "left_to_right + tokens_per_step({})", true, "k", 1, counts},
    {"shuffled", "k random masked positions in each pass",
     "at_random + tokens_per_step({})", true, "k", 1, counts},
    {"largest_gap", "the k largest gaps between best and second probability in each pass",
     "by_margin + tokens_per_step({})", true, "k", 2, counts},
    {"llada", "a fixed number of passes for each block (LLaDA)",
     "steps_per_block({})", true, "steps", 8, counts},
    {"fast_dllm", "every token with a probability above the threshold (Fast-dLLM)",
     "threshold({})", true, "threshold", 0.9, thresholds},
    {"fast_dllm_included", "the same, the threshold itself included",
     "threshold({}, inclusive=true)", false, "threshold", 0.9, thresholds},
    {"fast_dllm_factor", "a threshold that rises with the number of tokens committed together (Fast-dLLM)",
     "factor({})", true, "factor", 1, {0.2, 0.35, 0.5, 0.75, 1, 1.5, 2, 3}},
    {"eb_sampler", "tokens while the sum of their entropies, less the largest, is within the bound (EB-Sampler)",
     "by_entropy + entropy_bound({})", true, "bound", 0.1, {0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1, 2}},
    {"dynamic_threshold", "a threshold for each position that follows the changes of its logits (Dynamic-dLLM)",
     "adaptive_threshold({}, 0.001, 0.0008)", false, "start", 0.9, {0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99}},
    {"klass", "probable tokens whose logits have hardly changed in two passes (KLASS)",
     "stable_and_confident({}, 0.01, 1)", true, "confidence", 0.9, thresholds},
    {"drawn", "threshold on drawn tokens instead of the most probable ones (LLaDA)",
     "threshold({}) + sampling(1)", false, "threshold", 0.9, thresholds},
    {"nucleus", "the same, drawn among the most probable tokens only, by their confidence (Dream)",
     "threshold({}) + temperature(1) + sampling + top_p(0.9) + top_k(50) + min_p(0) + "
     "confidence_after_truncation", false, "threshold", 0.9, thresholds},
    {"dinfer_hierarchical", "threshold, and the best of each span of masked positions at a lower one (dInfer)",
     "hierarchical({}, 0.9)", false, "low", 0.4, {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}},
    {"slowfast", "explores how far the model is confident, then decodes that stretch (SlowFast)",
     "threshold({}, inclusive=true) + slow_fast(6, 0.3, 1)", false, "threshold", 0.9, thresholds},
    {"remask_current", "a low threshold, and tokens that become unlikely are masked again (dInfer)",
     "threshold(0.5) + remask_current_below({})", true, "below", 0.4, {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}},
    {"remask", "dinfer_hierarchical; committed positions of low confidence become candidates again (dInfer)",
     "hierarchical(0.4, 0.9) + remask_below({})", false, "below", 0.4, {0, 0.2, 0.4, 0.6, 0.8}},
    {"credited", "threshold on logits that are raised for tokens that were best before (CreditDecoding)",
     "threshold({}) + trace_credit", true, "threshold", 0.9, thresholds},
    {"self_credited", "the same with the committed share of the answer as strength and decay",
     "threshold({}) + adaptive_credit", false, "threshold", 0.9, thresholds},
    {"lopa_3", "threshold, and copies of the sequence with one more token each (LoPA)",
     "threshold({}) + lookahead(3)", true, "threshold", 0.9, branched},
    {"lopa_7", "the same with seven branches",
     "threshold({}) + lookahead(7)", false, "threshold", 0.9, branched},
    {"d2f", "threshold; a block starts before the one before it is complete (D2F)",
     "threshold({}) + block_pipeline(0.1, 0.95)", true, "threshold", 0.9, thresholds},
    {"osdt", "thresholds calibrated on the first prompt of each task (OSDT)",
     "osdt_gsm8k(slack={})", true, "slack", 0.2, slacks},
    {"osdt_by_step", "the same for each step, from all candidates and without a cap",
     "calibrated_threshold(cap=1, slack={}, mode=step_block, statistic=min_whisker, recorded=candidates)",
     false, "slack", 0.2, slacks},
    {"edited", "threshold; a committed token is replaced when another one becomes more probable (SGLang)",
     "threshold(0.9) + edit_committed({}) + edited_blocks(16)", false, "edit", 0.9, {0.5, 0.9, 0.99, 0.999, 1}},
    {"lopa_over_d2f", "lookahead over blocks that start early (LoPA over D2F)",
     "threshold({}) + block_pipeline(0.1, 0.95) + lookahead(3)", false, "threshold", 0.9, thresholds},
    {"credited_lopa", "credit and lookahead branches together",
     "threshold({}) + trace_credit + lookahead(3)", true, "threshold", 0.9, thresholds},
    {"dream", "the whole answer by a noise schedule of so many steps (Dream)",
     "by_entropy + timesteps({}, 0.001) + single_block", false, "steps", 20, {2, 3, 4, 8, 20, 40}},
};

// The shares that early skipping keeps are of what entered the pass: a second stage that keeps no
// less than the first has no effect.
const std::vector<preset> caches{
    {"none", "nothing is kept: each pass is a full forward", ""},
    {"prefix", "K/V left of the block (Fast-dLLM)", "prefix_cache"},
    {"dual", "K/V on both sides of the block (Fast-dLLM)", "dual_cache"},
    {"sparse", "the dual cache without the keys that the block attends to least (Sparse-dLLM)",
     "dual_cache(whole=2) + key_eviction(0.5, pool=3)"},
    {"block", "the same, refreshed by the count of passes only (ES-dLLM without skipping)",
     "block_cache(64, 16)"},
    {"delayed", "K/V of every token, one pass after it was committed (dKV-Cache)", "delayed_cache(8)"},
    {"similarity", "each layer computes the share of the answer whose values changed most (dLLM-Cache)",
     "similarity_refresh(0.25) + interval_cache(50, 7)"},
    {"budget", "each layer computes a number of positions that follows its change (Dynamic-dLLM)",
     "cache_budget(8, 8) + interval_cache(1, 0)"},
    {"skip", "deeper layers compute the most important positions only (ES-dLLM, the paper's rule)",
     "early_skip(0.5, [0.125, 0.25], [0.5, 0.25]) + block_cache(64, 16)"},
    {"skip_released", "the rule of its released code: a floor, and bonuses for masked and new positions",
     "early_skip(0.5, [0.125, 0.25], [0.5, 0.25], floor=true, cap=true, first_masked=5, committed=3, "
     "confident=2, forgets_held=true) + block_cache(64, 16, reaches_back=true, aligned=true)"},
    {"skip_dual", "early skipping over the dual cache: each block starts with a full forward",
     "early_skip(0.5, [0.125, 0.25], [0.5, 0.25]) + dual_cache"},
};
// clang-format on

}  // namespace

std::span<const preset> policy_presets() {
  return policies;
}

std::span<const preset> cache_presets() {
  return caches;
}

const preset* find_preset(std::span<const preset> presets, std::string_view name) {
  const auto found = std::ranges::find(presets, name, &preset::name);
  return found == presets.end() ? nullptr : &*found;
}

std::string shortest(double value) {
  char text[32];
  return {text, std::to_chars(std::begin(text), std::end(text), value).ptr};
}

std::string text_of(const preset& p, double value) {
  std::string text(p.text);
  const std::size_t hole = text.find("{}");
  return hole == std::string::npos ? text : text.replace(hole, 2, shortest(value));
}

std::string list_of(std::span<const preset> presets) {
  std::string list;
  for (const preset& p : presets) {
    const std::string text = text_of(p, p.value);
    list += "  " + std::string(p.name) + "\n      " + std::string(p.about) + "\n";
    list += text.empty() ? "" : "      = " + text + "\n";
  }
  return list;
}

}  // namespace demo
