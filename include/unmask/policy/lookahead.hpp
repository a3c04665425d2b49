// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/core/part.hpp>
#include <unmask/policy/ranking.hpp>

namespace UNMASK_NAMESPACE {

/// Lookahead branches: after each step the `branches` best positions that were not admitted are
/// tried, each in a branch of its own, and the next step goes on with the branch that leaves the
/// model surest about what is still open.
///
/// Worth of a row: its score by `Ranking`. Score of a branch: the mean worth of its open positions,
/// or of the `lowest_share` of them with the lowest worth; 1 when none is open. The highest score
/// wins; on equal scores the branch spawned first, the sequence itself (the anchor) last. The
/// forward pass that verifies the branches is also the winner's own next pass: one batch of 1 +
/// branches rows of positions. 0 branches changes nothing.
///
/// `branches` counts the lookahead branches, not the anchor; range [0, limits::branches].
/// lowest_share in (0, 1]. creation_weight in [0, 1] mixes in the worth a branch was spawned with
/// (1 for the anchor). `anchor_competes` and `anchor_wins` are the ablations of the paper.
/// Reads what the ranking reads. Source: LoPA (2025), sections 3.1 to 3.4, equations 1 and 2,
/// algorithm 1.
template <ranking Ranking>
struct lookahead_by {
  index_t branches = 3;
  float lowest_share = 1.0F;
  float creation_weight = 0.0F;
  bool anchor_competes = true;
  bool anchor_wins = false;
  Ranking order = {};  // not [[no_unique_address]]: nvcc 13 cannot lay out a policy that holds it

  static constexpr statistics required = Ranking::required;

  void check(const layout&) const {
    check_argument(branches >= 0 && branches <= max_branches,
                   "lookahead::branches",
                   branches,
                   "in [0, max_branches]");
    check_argument(lowest_share > 0.0F && lowest_share <= 1.0F,
                   "lookahead::lowest_share",
                   lowest_share,
                   "in (0, 1]");
    check_argument(creation_weight >= 0.0F && creation_weight <= 1.0F,
                   "lookahead::creation_weight",
                   creation_weight,
                   "in [0, 1]");
  }

  UNMASK_HD float worth(const auto& c) const { return order.score(c); }

  UNMASK_HD float score_of_branch(float creation, float future) const {
    return math::fma(creation_weight, creation, math::product(1.0F - creation_weight, future));
  }
};

/// Lookahead by the mean negative entropy, in nats: the paper's.
using lookahead = lookahead_by<by_entropy>;
static_assert(branching<lookahead> && branching<lookahead_by<by_margin>>);

}  // namespace unmask
