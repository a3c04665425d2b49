// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/part.hpp>
#include <unmask/core/policy.hpp>

/// Remasking of committed tokens, as long as their block is scored. Their rows are read like the
/// rows of masked positions, with the edits of tokens.hpp, repetition.hpp and eos.hpp. Positions
/// before sequence_report::committed_prefix may then still change.
namespace UNMASK_NAMESPACE {

/// Remasks a position when its committed token has become less probable than `confidence`.
///
/// The probability is exactly the probability of the committed token in the edited row. The state
/// of a remasked position is reset. Every step remasks fewer tokens than it commits, lowest
/// positions first, and at most `allowance` more for the whole sequence, which are its additional
/// forward passes. With a commit rule of one token a step only the allowance is ever remasked.
///
/// Range: confidence in [0, 1], 0 remasks nothing; allowance >= 0.
/// Cost: O(1) a position.
/// Example: `tokens_per_step(2) + remask_current_below(0.4)`, rows a90 b80 c70 d60, then a90 e80b10
/// c70 d60: `ab__` `a_cd` `aecd`.
/// Source: dInfer (2025), `hierarchy_remasking`, whose rule for the net progress this is; there the
/// best token's probability is tested, and more commit instead of fewer being remasked.
struct remask_current_below {
  float confidence = 0.4F;
  index_t allowance = 0;

  static constexpr statistics required = stat::none;
  static constexpr bool remasks_current = true;
  static constexpr bool tracks_current = true;

  static constexpr part_label label{
      "remask_current_below",
      "masks a committed token again when its probability falls below confidence"};
  static constexpr knob<remask_current_below> knobs[] = {
      {"confidence", &remask_current_below::confidence, within(0, 1)},
      {"allowance", &remask_current_below::allowance, at_least(0)}};

  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const sequence_shape&) const {
    return allowance;
  }

  UNMASK_HD verdict edit_token(const auto&, const auto& context) const {
    const bool is_weak = context.at.current_probability < confidence;
    return is_weak && context.at.may_remask ? verdict::remask : verdict::keep;
  }
};
static_assert(token_editing<remask_current_below> && current_tracking<remask_current_below>);

/// Committed positions whose most probable token has become less probable than `confidence` become
/// candidates again: ranked among the masked ones in the same step, they take that token if the
/// commit rule commits them, and are remasked otherwise. The test is on the most probable token,
/// not on the committed one: remask_current_below tests the latter.
///
/// A step commits at least one candidate more than there are such positions, the best ones first,
/// masked positions with invalid rows last: it takes no additional forward passes. Combines with
/// every commit rule; candidates of both kinds form the spans of hierarchical. Reads
/// stat::confidence. No state. Range: [0, 1], strict; 0 remasks nothing. Example:
/// `tokens_per_step(2) + remask_below(0.4)`, rows a90 b80 c70 d60, then a90 e35b30 c70 d60: `ab__`
/// `a_cd` `aecd`. Source: inclusionAI, dInfer (2025), `hierarchy_remasking`.
struct remask_below {
  float confidence = 0.4F;
  static constexpr statistics required = stat::confidence;

  static constexpr part_label label{
      "remask_below",
      "makes a committed position a candidate again when its best probability is below confidence"};
  static constexpr knob<remask_below> knobs[] = {
      {"confidence", &remask_below::confidence, within(0, 1)}};

  UNMASK_HD bool remasks(const auto& c, auto&) const { return c.confidence() < confidence; }
  /// False at confidence 0: committed positions need not be read.
  [[nodiscard]] UNMASK_HD bool edits_tokens_now() const { return confidence > 0.0F; }
};
static_assert(remasking<remask_below>);

}  // namespace unmask
