// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/branches.hpp>
#include <unmask/core/part/knob.hpp>

namespace UNMASK_NAMESPACE {

/// Beam search over the order of the commits: while the commit rule commits nothing, the `width`
/// best states of the sequence, the members of a beam, are decoded in one batch.
///
/// Each member is decided from its own rows. If the commit rule commits some of its candidates, the
/// member continues with them. Otherwise it is replaced by new members, one with each of its
/// `width` best-ranked candidates. Each token adds its confidence to the score of its member, as in
/// the release, or with `log_scores` the logarithm of it, as the paper says: then a member that
/// commits many tokens has no advantage. If the rule has committed in some member, or the members
/// are complete, the member of the highest score continues alone; otherwise the `width` members of
/// the highest scores do. Members with the same tokens are one, with the higher score.
///
/// A token is written, and reported, when all members have it, or when one member is left. So a
/// step may write nothing; within most_forwards(), one member is left. All members are in the same
/// block, because they have the same number of tokens. A pass runs up to `width` sequences. The
/// session must have width - 1 branches; branch 0 is also a member, and has tokens of its own
/// (segment::placed).
///
/// Range: width in [1, 1 + session_capacity::branches]; 1 has no effect. The tokens in which
/// members differ are 32 together at most: members that would have more leave the beam, the lowest
/// scores first. Ties: the member that is first in the beam, then the better rank. State: 4 KB a
/// slot. Cost: the decision of each member, and O(width^2) comparisons of two members a step.
/// Candidates are reported (session_capacity::trace) in steps after which one member is left: the
/// candidates of this member. Ranks by confidence. Does not combine with parts that rewrite or draw
/// tokens, store data for each position, cache K/V or report probabilities, with constraints, nor
/// with schedules other than semi_autoregressive and single_block. Example: `threshold(0.9) +
/// beam(2)`, rows a80 b70 c95: `__c` `__c` `abc`. Source: Cao, Correia, Louizos, Liu and Yin,
/// Search or accelerate: confidence-switched position beam search for diffusion language models
/// (2026), as released; methods::soar.
struct beam {
  index_t width = 2;
  bool log_scores = false;

  static constexpr statistics required = stat::confidence;
  static constexpr bool follows_confidence = true;

  static constexpr part_label label{
      "beam", "runs the best orders in which uncertain tokens may be committed"};
  static constexpr knob<beam> knobs[] = {{"width", &beam::width, within(1, 1 + max_branches)},
                                         {"log_scores", &beam::log_scores}};

  /// False with a width of 1.
  [[nodiscard]] UNMASK_HD bool branches_now() const { return width > 1; }
  UNMASK_HD float score_of(const auto& c) const {
    return log_scores ? c.log_probability() : c.confidence();
  }
};
static_assert(beam_searching<beam>);

}  // namespace unmask
