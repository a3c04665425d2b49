// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/knob.hpp>
#include <unmask/core/policy.hpp>
#include <unmask/core/part.hpp>

/// Second thoughts about settled tokens, as long as the block they stand in is scored. Their rows
/// are read as those of open positions are, with the edits of revise.hpp, repetition.hpp and
/// end_of_text.hpp. What is before sequence_report::settled may then still change.
namespace UNMASK_NAMESPACE {

/// Puts the mask token back where the settled token has become less probable than `confidence`.
///
/// The probability is that of the token that stands there, exactly, in the row as edited. What a
/// position remembers starts anew. Every step reopens fewer tokens than it commits, lowest
/// positions first, and at most `allowance` more for the whole sequence, which are its extra forward
/// passes. With an admission of one token a step nothing but the allowance is ever reopened.
///
/// Range confidence in [0, 1], 0 reopens nothing; allowance >= 0. O(1) a position. Source: dInfer
/// (2025), `hierarchy_remasking`, whose rule for the net progress this is; it tests the best
/// token's probability and commits more instead of reopening less.
struct reopen_below {
  float confidence = 0.4F;
  index_t allowance = 0;

  static constexpr statistics required = stat::none;
  static constexpr bool reopens = true;
  static constexpr bool watches_current = true;

  static constexpr part_label label{
      "reopen_below", "reopen_below", "masks settled tokens again that became unlikely"};
  static constexpr knob<reopen_below> knobs[] = {
      {"confidence", &reopen_below::confidence, within(0, 1)},
      {"allowance", &reopen_below::allowance, at_least(0)}};

  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const layout&) const { return allowance; }

  UNMASK_HD verdict revisit(const auto&, const auto& own) const {
    const bool is_weak = own.at.current_probability < confidence;
    return is_weak && own.at.may_reopen ? verdict::reopen : verdict::keep;
  }
};
static_assert(revisiting<reopen_below> && current_watching<reopen_below>);

/// Lets settled positions compete again whose most probable token has become less probable than
/// `confidence`: ranked and admitted among the open ones in the same step, they take that token, or
/// the mask token comes back. What is tested is not the token that stands there: reopen_below tests
/// that one.
///
/// A step admits at least one candidate more than there are such positions, the best ones first,
/// open positions with invalid rows last: it takes no extra forward passes. Goes with every
/// admission; candidates of both kinds form the runs of hierarchical. Range [0, 1], strict; 0
/// remasks nothing.
///
/// Reads stat::confidence. No state. Source: inclusionAI, dInfer (2025), `hierarchy_remasking`.
struct remask_below {
  float confidence = 0.4F;
  static constexpr statistics required = stat::confidence;

  static constexpr part_label label{
      "remask_below", "remask_below", "settled positions that became unsure compete again"};
  static constexpr knob<remask_below> knobs[] = {
      {"confidence", &remask_below::confidence, within(0, 1)}};

  UNMASK_HD bool remasks(const auto& c, auto&) const { return c.confidence() < confidence; }
};
static_assert(remasking<remask_below>);

}  // namespace unmask
