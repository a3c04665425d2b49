// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/knob.hpp>
#include <unmask/core/policy.hpp>

/// Truncated sampling: the token is drawn among the most probable ones only.
///
/// Several of these parts keep what all of them keep, in any written order: tokens are taken in
/// order, larger logit first and lower token between equals, until one of the rules ends it; the
/// first is always kept. Each rule looks at the probabilities of the whole row as the statistics
/// see it, behind temperature{}, masks, penalties and bias; sampling::temperature then flattens or
/// sharpens the draw among the kept tokens only. So temperature{T} with sampling{} is Dream's order
/// (first the temperature, then the cut), and sampling{T} draws as llama.cpp does (first the cut,
/// whose top-p there counts the mass of what top-k left, then the temperature).
///
/// The drawn token is distributed exactly as the softmax over the kept tokens, and is the same for
/// any batch, tier and thread count. A row is read once: the read holds its 64 largest logits,
/// which mostly prove what is kept. Where they do not, the row is read again and counted in
/// sequence_report::second_reads.
///
/// Which confidence the ranking sees: that of the drawn token in the whole row at temperature 1, as
/// in LLaDA; with confidence_of_kept{} that in the kept tokens alone, as in Dream.
///
/// Goes with every ranking, admission and schedule, and with edits of watched tokens that keep no
/// state (penalties, bias, lists, end rules). Not with trace_credit and its like, which raise
/// tokens that the read did not keep apart, nor with such edits and lookahead at once.
namespace UNMASK_NAMESPACE {

/// Statistics are those of the kept tokens, renormalised: confidence, margin and entropy, and the
/// log-probability of reports. Without a drawing part the proposed token is the best one, and only
/// these change.
///
/// A row of which one token is kept has confidence 1. Does not go with parts that compare rows with
/// those of the step before. Source: J. Ye et al., Dream 7B (2025), its `sample_tokens`.
struct confidence_of_kept {
  static constexpr statistics required = stat::kept;
  static constexpr bool renormalises = true;
  static constexpr part_label label{
      "confidence_of_kept", "confidence_of_kept", "statistics of the kept tokens, renormalised"};

  [[nodiscard]] UNMASK_HD truncation kept() const { return {.renormalises = true}; }
};
static_assert(truncating<confidence_of_kept>);

/// Keeps the k tokens of largest logit: exactly k, if the row has as many.
///
/// Range k >= 1; k >= vocab keeps all. Source: A. Fan et al., Hierarchical neural story generation
/// (2018), section 5.4; ties to the lower token, where released code keeps all that are equal to
/// the k-th.
struct keep_top_k {
  index_t k = 50;
  static constexpr statistics required = stat::kept;

  static constexpr part_label label{
      "keep_top_k", "keep_top_k", "draws among the k most probable tokens"};
  static constexpr knob<keep_top_k> knobs[] = {{"k", &keep_top_k::k, at_least(1)}};

  [[nodiscard]] UNMASK_HD truncation kept() const { return {.tokens = k}; }
};
static_assert(truncating<keep_top_k>);

/// Keeps the most probable tokens up to and with the one that lifts their mass above p: the
/// nucleus.
///
/// Range p in [0, 1]; 0 keeps the best token, 1 keeps all. Masses are compared in whole units of
/// 2^-38 of the best token's. Source: A. Holtzman et al., The curious case of neural text
/// degeneration (2020), section 3.1, with the strict comparison of Dream's code.
struct keep_top_p {
  float p = 0.95F;
  static constexpr statistics required = stat::kept;

  static constexpr part_label label{
      "keep_top_p", "keep_top_p", "draws among the most probable tokens of a probability mass"};
  static constexpr knob<keep_top_p> knobs[] = {{"p", &keep_top_p::p, within(0, 1)}};

  [[nodiscard]] UNMASK_HD truncation kept() const { return {.mass = p}; }
};
static_assert(truncating<keep_top_p>);

/// Keeps the tokens that are at least `ratio` times as probable as the most probable one.
///
/// Decided on logits: z - max z >= ln ratio. Range ratio in [0, 1]; 0 keeps all, 1 those equal to
/// the best. Source: M. Nguyen et al., Turning up the heat: min-p sampling (2024), section 3.
struct keep_min_p {
  float ratio = 0.05F;
  static constexpr statistics required = stat::kept;

  static constexpr part_label label{
      "keep_min_p",
      "keep_min_p",
      "draws among tokens at least ratio times as probable as the best"};
  static constexpr knob<keep_min_p> knobs[] = {{"ratio", &keep_min_p::ratio, within(0, 1)}};

  [[nodiscard]] UNMASK_HD truncation kept() const { return {.ratio = ratio}; }
};
static_assert(truncating<keep_min_p>);

}  // namespace unmask
