// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/plan.hpp>

#include <span>

namespace UNMASK_NAMESPACE {

/// The share of one sequence, or of one of its branches, in a forward pass.
struct segment {
  index_t slot = 0;  ///< Index of the sequence in the session.
  /// 0 is the sequence itself. Branch b is the sequence with the tokens `placed` written at their
  /// positions, in this forward pass only; it may be computed in the same batch.
  index_t branch = 0;
  /// The tokens of the branch, and their positions: one with lookahead, one or more with drafts or
  /// a beam; none for branch 0, except in a beam of several members. Valid until supply().
  std::span<const placement> placed;
  /// Positions of the slot's tokens to compute. An engine without a cache may compute more of
  /// `keys`.
  range query;
  /// Rows of the model's output to return as they are (a subrange of `query`), in ascending order.
  /// With logits_shift 1 they already begin one position earlier: positions 4 to 11 are decided
  /// from rows 3 to 10. Position 0 is decided from row 0 with either shift.
  range rows;
  /// Index of the first of these rows in the tensor given to supply().
  index_t first_row = 0;
  /// Key range of the computed positions. Contains `query`; its other positions keep the K/V of the
  /// pass that last computed them.
  range keys;
  /// Which keys outside the decided blocks receive attention.
  eviction evict = eviction::none;
  /// Attention of the positions. A shadow computes masks at the positions of `query`, whatever
  /// their tokens; their K/V are of this pass only.
  attention_kind attention = attention_kind::bidirectional;
  /// Index of the segment that a shadow attends to; -1 for the other kinds.
  index_t shadow_of = -1;
  /// Row p - shift of this segment predicts position p.
  index_t logits_shift = 0;
};

/// Index of a segment among the segments of its slot: the branch, or 1 for a shadow, which no
/// policy with branches has.
[[nodiscard]] UNMASK_HD constexpr index_t segment_of_slot(const segment& s) {
  return s.attention == attention_kind::shadow ? 1 : s.branch;
}

/// The next forward pass, over all running sequences. Valid until supply().
struct forward_request {
  std::span<const segment> segments;  ///< One for each sequence and branch to run.
  /// Total number of rows of logits.
  index_t rows = 0;
};

}  // namespace unmask
