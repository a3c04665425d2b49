// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/policy.hpp>

/// Truncated sampling: draws the token among the most probable ones only.
///
/// Several of these parts keep the tokens that all of them keep, in any written order: tokens are
/// kept in order, larger logit first and lower token between equals, until one of the rules ends
/// the list; the first token is always kept. Each rule uses the probabilities of the whole row as
/// edited, after temperature{}, masks, penalties and bias; sampling::temperature then flattens or
/// sharpens the draw among the kept tokens only. So temperature{T} with sampling{} is Dream's order
/// (first the temperature, then the truncation), and sampling{T} draws as llama.cpp does (first the
/// truncation, whose top-p there uses the mass of the tokens that top-k kept, then the
/// temperature).
///
/// The drawn token has exactly the distribution of the softmax over the kept tokens, and is the
/// same for any batch, instruction set and thread count. A row is read once: the read holds its 64
/// largest logits, which mostly determine the kept tokens. If they do not, the row is read again
/// and counted in sequence_report::second_reads.
///
/// Cost of a row of 126,464 normal logits, draw included, on a Zen 4 core: 30 us with 20 kept
/// tokens, 126 with 200 and 870 with 5,000, against 19 without a truncation. std::partial_sort
/// takes 135 for the largest 200 alone, and 1,980 for 5,000 (bench/decisions.cpp).
///
/// The ranking uses the confidence of the drawn token in the whole row at temperature 1, as in
/// LLaDA; with confidence_after_truncation{} that among the kept tokens, as in Dream.
///
/// Combines with every ranking, commit rule and schedule, and with edits of tracked tokens that
/// keep no state (penalties, bias, lists, EOS rules). Not with trace_credit and adaptive_credit,
/// which raise tokens that the read does not hold separately, nor with such edits and lookahead
/// together.
namespace UNMASK_NAMESPACE {

/// Computes the statistics over the kept tokens, renormalised: confidence, margin and entropy, and
/// the log-probability of reports. Without a drawing part the proposed token is the best one, and
/// only these change.
///
/// A row with one kept token has confidence 1. Does not combine with parts that compare rows with
/// the rows of the previous step.
/// Example: `threshold(0.9) + sampling + top_k(1) + confidence_after_truncation`, rows a60 b50:
/// `ab` at 1.
/// Source: J. Ye et al., Dream 7B (2025), its `sample_tokens`.
struct confidence_after_truncation {
  static constexpr statistics required = stat::kept;
  static constexpr bool renormalises = true;
  static constexpr part_label label{
      "confidence_after_truncation",
      "computes confidence, margin and entropy from the kept tokens only"};

  [[nodiscard]] UNMASK_HD truncation kept() const { return {.renormalises = true}; }
};
static_assert(truncating<confidence_after_truncation>);

/// Keeps the k tokens of largest logit: exactly k, if the row has k.
///
/// Range: k >= 1; k >= vocab keeps all.
/// Ties: the lower token; released code keeps all that equal the k-th.
/// Example: `tokens_per_step + sampling + top_k(2) + confidence_after_truncation`, rows a60b30: `a`
/// at 0.67.
/// Source: A. Fan et al., Hierarchical neural story generation (2018), section 5.4.
struct top_k {
  index_t k = 50;
  static constexpr statistics required = stat::kept;

  static constexpr part_label label{"top_k", "draws among the k most probable tokens"};
  static constexpr knob<top_k> knobs[] = {{"k", &top_k::k, at_least(1)}};

  [[nodiscard]] UNMASK_HD truncation kept() const { return {.tokens = k}; }
};
static_assert(truncating<top_k>);

/// Keeps the most probable tokens up to and including the one with which their mass exceeds p: the
/// nucleus.
///
/// Masses are compared in whole units of 2^-38 of the best token's.
/// Range: p in [0, 1]; 0 keeps the best token, 1 keeps all.
/// Example: `tokens_per_step + sampling + top_p(0.7) + confidence_after_truncation`, rows a60b30:
/// `a` at 0.67.
/// Source: A. Holtzman et al., The curious case of neural text degeneration (2020), section 3.1,
/// with the strict comparison of Dream's code.
struct top_p {
  float p = 0.95F;
  static constexpr statistics required = stat::kept;

  static constexpr part_label label{
      "top_p", "draws among the most probable tokens up to the one with which their sum exceeds p"};
  static constexpr knob<top_p> knobs[] = {{"p", &top_p::p, within(0, 1)}};

  [[nodiscard]] UNMASK_HD truncation kept() const { return {.mass = p}; }
};
static_assert(truncating<top_p>);

/// Keeps the tokens that are at least `ratio` times as probable as the most probable one.
///
/// Computed on logits: z - max z >= ln ratio.
/// Range: ratio in [0, 1]; 0 keeps all, 1 those equal to the best.
/// Example: `tokens_per_step + sampling + min_p(0.4) + confidence_after_truncation`, rows a60b30:
/// `a` at 0.67.
/// Source: M. Nguyen et al., Turning up the heat: min-p sampling (2024), section 3.
struct min_p {
  float ratio = 0.05F;
  static constexpr statistics required = stat::kept;

  static constexpr part_label label{
      "min_p", "draws among tokens at least ratio times as probable as the best"};
  static constexpr knob<min_p> knobs[] = {{"ratio", &min_p::ratio, within(0, 1)}};

  [[nodiscard]] UNMASK_HD truncation kept() const { return {.ratio = ratio}; }
};
static_assert(truncating<min_p>);

}  // namespace unmask
