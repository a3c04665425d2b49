// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/part.hpp>
#include <unmask/policy/ranking.hpp>

namespace UNMASK_NAMESPACE {

/// Lookahead branches: after each step, the `branches` best positions that were not committed are
/// tried, each in a branch of its own, and the next step continues with the branch in which the
/// model is most certain about the positions that are still masked.
///
/// The lookahead score of a row is its score by `Ranking`. The score of a branch is the mean
/// lookahead score of its masked positions in the scored range, or of the `lowest_share` of them
/// with the lowest lookahead score. If the token of a branch fills the scored range, the score is
/// the lookahead score of that token when the branch was created, because nothing in the range
/// verifies it; if it fills the answer, the score is 1. The anchor (the sequence itself) always has
/// a mean, because the positions of the branches' tokens are masked in it. The highest score wins.
/// Ties: the branch created first; the anchor last.
///
/// The forward pass that verifies the branches is also the winner's next pass: one batch of 1 +
/// branches sequences. With 0 branches the policy decides as without this part.
///
///     score = creation_weight created + (1 - creation_weight) mean(scores of the masked positions)
///
/// Range: `branches` in [0, session_capacity::branches], the anchor not counted. lowest_share in
/// (0, 1]. creation_weight in [0, 1] is the weight of the lookahead score with which a branch was
/// created (1 for the anchor). `anchor_competes` and `anchor_wins` are the ablations of the paper.
/// `complete_wins` is the rule of the release: a branch that fills the scored range scores 1 as
/// well, the highest confidence and more than any negative entropy. There the range ends with the
/// last block that was added, so this is rare before the end of the answer; under
/// semi_autoregressive it would commit an unverified token at the end of every block.
///
/// Reads the statistics of the ranking.
/// Example: `tokens_per_step + lookahead(1, anchor_competes=false)`, rows a90 b80 c70: `a__` `abc`.
/// Source: LoPA (2025), sections 3.1 to 3.4, equations 1 and 2, algorithm 1; equation 2 has no
/// value for a branch without masked positions.
template <ranking Ranking>
struct lookahead_by {
  index_t branches = 3;
  float lowest_share = 1.0F;
  float creation_weight = 0.0F;
  bool anchor_competes = true;
  bool anchor_wins = false;
  bool complete_wins = false;
  /// The ranking that lookahead score and score are of.
  Ranking order = {};  // not [[no_unique_address]]: nvcc 13 cannot lay out a policy that holds it

  static constexpr statistics required = Ranking::required;

  static constexpr part_label label{
      "lookahead", "also runs copies of the sequence with one more token each, and keeps the best"};
  static constexpr knob<lookahead_by> knobs[] = {
      {"branches", &lookahead_by::branches, within(0, max_branches)},
      {"lowest_share", &lookahead_by::lowest_share, above(0).up_to(1)},
      {"creation_weight", &lookahead_by::creation_weight, within(0, 1)},
      {"anchor_competes", &lookahead_by::anchor_competes},
      {"anchor_wins", &lookahead_by::anchor_wins},
      {"complete_wins", &lookahead_by::complete_wins}};

  /// The statistics that its score reads with its current value.
  [[nodiscard]] statistics required_now() const {
    if constexpr (requires { order.required_now(); }) {
      return branches > 0 ? order.required_now() : stat::none;
    } else {
      return required;
    }
  }

  /// False with 0 branches.
  [[nodiscard]] UNMASK_HD bool branches_now() const { return branches > 0; }
  UNMASK_HD float lookahead_score(const auto& c) const { return order.score(c); }

  UNMASK_HD float score_of_branch(float creation, float future) const {
    return math::fma(creation_weight, creation, math::product(1.0F - creation_weight, future));
  }
};

/// Lookahead by the mean confidence, as in the paper. Its scripts use the negative entropy, in
/// nats: lookahead_by<by_entropy>.
using lookahead = lookahead_by<by_confidence>;
static_assert(branching<lookahead> && branching<lookahead_by<by_entropy>>);

}  // namespace unmask
