// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/policy/ranking.hpp>

namespace UNMASK_NAMESPACE {

/// Commits the best-ranked candidate, and every other one whose entropy is `value` or less:
///
///     rank = 1  or  H <= value
///
/// With `per_position` H is the entropy plus `per_position` nats for each position right of the
/// first masked one, as by_entropy_and_distance ranks it.
///
/// The published rule ranks by_entropy: the candidate of the least entropy always commits. With
/// several blocks in a step that is one candidate for all of them, and a block that must commit and
/// has no such candidate also commits its own best one.
///
/// Range: value and per_position >= 0, in nats. Reads stat::entropy.
/// Example: `by_entropy + entropy_below(0.4)`, rows a60b40 a95b5 a90b10: `_aa` `aaa`.
/// Example: `by_entropy_and_distance(1) + entropy_below(0.4, 1)`, rows a60b40 a95b5 a90b10: `a__`
/// `aa_` `aaa`.
/// Source: d3LLM: ultra-fast diffusion LLM using pseudo-trajectory distillation (2026), its entropy
/// threshold, as the released code compares it. `d3llm` is the whole method.
struct entropy_below {
  float value = 0.5F;
  float per_position = 0.0F;
  static constexpr statistics required = stat::entropy;

  static constexpr part_label label{
      "entropy_below", "commits the best-ranked token and all whose entropy is at most value"};
  static constexpr knob<entropy_below> knobs[] = {
      {"value", &entropy_below::value, at_least(0).in("nats")},
      {"per_position", &entropy_below::per_position, at_least(0).in("nats")}};

  UNMASK_HD bool commits(const auto& c, const rank_info& s, const auto& context) const {
    return s.rank == 0 || detail::entropy_with_distance(c, context, per_position) <= value;
  }
};
static_assert(commit_rule<entropy_below>);

}  // namespace unmask
