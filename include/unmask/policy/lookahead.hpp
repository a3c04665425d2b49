// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/knob.hpp>
#include <unmask/core/part.hpp>
#include <unmask/policy/ranking.hpp>

namespace UNMASK_NAMESPACE {

/// Lookahead branches: after each step the `branches` best positions that were not admitted are
/// tried, each in a branch of its own, and the next step goes on with the branch that leaves the
/// model surest about what is still open.
///
/// Worth of a row: its score by `Ranking`. Score of a branch: the mean worth of its open positions
/// in the scored window, or of the `lowest_share` of them with the lowest worth. A branch whose
/// token fills the window scores the worth of that token when the branch was created: nothing in
/// the window verifies it. One whose token fills the answer scores 1. The anchor always has a mean:
/// what its branches fill is open in it. The highest score wins; on equal scores the branch spawned
/// first, the sequence itself (the anchor) last. The forward pass that verifies the branches is
/// also the winner's own next pass: one batch of 1 + branches rows of positions. 0 branches changes
/// nothing.
///
/// Range: `branches` counts the lookahead branches, not the anchor, in [0, limits::branches].
/// lowest_share in (0, 1]. creation_weight in [0, 1] mixes in the worth a branch was created with
/// (1 for the anchor). `anchor_competes` and `anchor_wins` are the ablations of the paper.
/// `complete_wins` is the release's: a branch that fills the window scores 1 as well, the highest
/// confidence and more than any negative entropy. Its window ends with the last block that was
/// added, so there this happens seldom before the end of the answer; under sequential blocks it
/// would commit an unverified token at the end of every block.
///
/// Reads what the ranking reads. Source: LoPA (2025), sections 3.1 to 3.4, equations 1 and 2,
/// algorithm 1; equation 2 has no value for a branch without open positions.
template <ranking Ranking>
struct lookahead_by {
  index_t branches = 3;
  float lowest_share = 1.0F;
  float creation_weight = 0.0F;
  bool anchor_competes = true;
  bool anchor_wins = false;
  bool complete_wins = false;
  /// The ranking that worth and score are of.
  Ranking order = {};  // not [[no_unique_address]]: nvcc 13 cannot lay out a policy that holds it

  static constexpr statistics required = Ranking::required;

  static constexpr part_label label{
      "lookahead", "lookahead", "branches that try further tokens in the same forward pass"};
  static constexpr knob<lookahead_by> knobs[] = {
      {"branches", &lookahead_by::branches, within(0, max_branches)},
      {"lowest_share", &lookahead_by::lowest_share, above(0).up_to(1)},
      {"creation_weight", &lookahead_by::creation_weight, within(0, 1)},
      {"anchor_competes", &lookahead_by::anchor_competes},
      {"anchor_wins", &lookahead_by::anchor_wins},
      {"complete_wins", &lookahead_by::complete_wins}};

  UNMASK_HD float worth(const auto& c) const { return order.score(c); }

  UNMASK_HD float score_of_branch(float creation, float future) const {
    return math::fma(creation_weight, creation, math::product(1.0F - creation_weight, future));
  }
};

/// Lookahead by the mean confidence: the paper's. Its scripts take the negative entropy, in nats:
/// lookahead_by<by_entropy>.
using lookahead = lookahead_by<by_confidence>;
static_assert(branching<lookahead> && branching<lookahead_by<by_entropy>>);

}  // namespace unmask
