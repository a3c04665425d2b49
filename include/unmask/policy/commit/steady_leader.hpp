// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>

namespace UNMASK_NAMESPACE {

/// Commits a candidate whose most probable token has been the same in the last `steps` forward
/// passes in which the position had a valid row, whatever its probability; combine it with a
/// threshold by && to require both.
///
///     policy{by_confidence{},
///            threshold{0.9F} || (steady_leader{3} && threshold{0.6F})}
///
/// The row is taken as edited by the parts written before this one (by name: as the model returned
/// it), whatever token a drawing part proposes. A pass in which the position has no row, or an
/// invalid one, neither counts nor resets the count, which starts again when the position is
/// committed or remasked.
/// Range: steps >= 1; with 1 everything commits. Reads the best token only.
/// State: 8 bytes a position.
/// Ties: the lower token leads.
/// Cost: O(1) a row.
/// Example: `any_of(threshold(0.9), steady_leader(2))`, rows a60 b50c30 c45d30, then a60 c50b30
/// c45d30: `a__` `a_c` `acc`.
/// Source: this library's; stable_and_confident requires stability of the whole distribution.
struct steady_leader {
  index_t steps = 3;

  struct position_state {
    token_id leader = no_token;
    index_t held = 0;  ///< passes, this one included
  };

  static constexpr statistics required = stat::none;
  static constexpr part_label label{
      "steady_leader", "commits a token that was the best of its row in the last steps"};
  static constexpr knob<steady_leader> knobs[] = {{"steps", &steady_leader::steps, at_least(1)}};

  UNMASK_HD void process(auto& row, auto& context) const {
    const token_id leader = row.total().token;
    const bool holds = context.state.leader == leader;
    context.state.held = holds ? context.state.held + 1 : 1;
    context.state.leader = leader;
  }

  UNMASK_HD bool commits(const auto&, const rank_info&, const auto& context) const {
    return context.state.held >= steps;
  }
};
static_assert(logits_processor<steady_leader> && commit_rule<steady_leader>);

}  // namespace unmask
