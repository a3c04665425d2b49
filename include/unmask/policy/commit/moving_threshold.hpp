// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/part.hpp>

namespace UNMASK_NAMESPACE {

/// Commits a candidate whose confidence exceeds a threshold that moves from `start` to `end` with
/// the share of the block that is committed when the step begins:
///
///     confidence > start + share (end - start),   share = committed / positions of the block
///
/// Positions that the caller gave count as committed. With several blocks in a step each has its
/// own threshold. A schedule whose blocks are the whole answer (single_block) makes it the share of
/// the answer.
///
/// Range: start and end in [0, 1]; nothing exceeds 1; start = end is threshold(start). Reads
/// stat::confidence.
/// Cost: O(1) a candidate, no state.
/// Example: `moving_threshold(0.9, 0.5)`, rows a95 b60 c75 d60: `a___` `a_c_` `abc_` `abcd`.
/// Source: CadLLM (2025), a threshold that follows the progress of the decode; the linear form is
/// this library's, and was not compared with released code.
struct moving_threshold {
  float start = 0.9F;
  float end = 0.7F;

  static constexpr statistics required = stat::confidence;
  static constexpr part_label label{
      "moving_threshold",
      "commits tokens above a threshold that moves from start to end as the block fills"};
  static constexpr knob<moving_threshold> knobs[] = {
      {"start", &moving_threshold::start, within(0, 1)},
      {"end", &moving_threshold::end, within(0, 1)}};

  UNMASK_HD bool commits(const auto& c, const rank_info&, const auto& context) const {
    return c.confidence() > threshold(context.at);
  }

  /// The threshold of a position's block.
  [[nodiscard]] UNMASK_HD float threshold(const step_info& at) const {
    const float share = math::divide(static_cast<float>(at.block_length - at.block_masked),
                                     static_cast<float>(at.block_length));
    return math::fma(share, end - start, start);
  }
};
static_assert(commit_rule<moving_threshold>);

}  // namespace unmask
