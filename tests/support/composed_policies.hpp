// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file Policies of many parts, chosen so that every pair of parts that goes together is in one of
/// them (compose/pairs.test.cpp counts), apart from pairs that only stand side by side: two commit
/// rules, a commit rule and a ranking, a ranking and a schedule.

#include <unmask/unmask.hpp>

namespace unmask::testing {

/// Calls use(policy) for the first half.
void for_some_compositions(const auto& use) {
  use(policy{at_random{},
             top_k{2} || timesteps{9} || profile_threshold<8>{.threshold = 0.5F},
             logit_bias<1>{{{2, 0.5F}}},
             repetition_penalty<4>{},
             count_penalty<4>{0.3F, 0.1F},
             neighbour_guard{0.5F},
             token_list<5>{{1, 2, 3, 5, 8}},
             probability_of<2>{{1, 2}},
             end_penalty{0.4F},
             no_end_before{2},
             hold_end{},
             end_last{},
             edit_settled{0.6F},
             reopen_below{0.3F},
             temperature{0.8F},
             sampling{0.9F},
             keep_top_k{4},
             keep_top_p{0.9F},
             keep_min_p{0.1F},
             confidence_of_kept{},
             stop_at_end{},
             stop_sequence<2>{{1, 2}},
             step_budget{30},
             whole_sequence{}});
  use(policy{by_margin{},
             confidence_above{0.6F} || early_commit{} || steady_leader{} || local_leap{} || confidence_at_least{0.7F} || scheduled{5} || entropy_bound{0.3F},
             logit_bias<1>{{{2, 0.5F}}},
             repetition_penalty<4>{},
             count_penalty<4>{0.3F, 0.1F},
             neighbour_guard{0.5F},
             token_list<5>{{1, 2, 3, 5, 8}},
             probability_of<2>{{1, 2}},
             end_penalty{0.4F},
             no_end_before{2},
             hold_end{},
             end_last{},
             edit_settled{0.6F},
             remask_below{0.3F},
             temperature{0.8F},
             sampling{0.9F},
             stop_at_end{},
             stop_sequence<2>{{1, 2}},
             step_budget{30},
             edited_blocks{},
             trace_credit<6>{},
             adaptive_credit<6>{}});
  use(policy{loosely{by_margin{}, 0.5F},
             top_k{2} || timesteps{9} || independent_timesteps{9} ||
                 profile_threshold<8>{.threshold = 0.5F},
             logit_bias<1>{{{2, 0.5F}}},
             repetition_penalty<4>{},
             count_penalty<4>{0.3F, 0.1F},
             neighbour_guard{0.5F},
             token_list<5>{{1, 2, 3, 5, 8}},
             probability_of<2>{{1, 2}},
             end_penalty{0.4F},
             no_end_before{2},
             hold_end{},
             end_last{},
             reopen_below{0.3F},
             lookahead{.branches = 2},
             temperature{0.8F},
             sampling{0.9F},
             stop_at_end{},
             stop_sequence<2>{{1, 2}},
             step_budget{30},
             block_pipeline{},
             trace_credit<6>{},
             adaptive_credit<6>{}});
  use(policy{
      by_entropy{},
      (confidence_at_least{0.7F} || scheduled{5} || independent_timesteps{9}) &&
          at_frontier{.reach = 2},
      logit_bias<1>{{{2, 0.5F}}},
      repetition_penalty<4>{},
      count_penalty<4>{0.3F, 0.1F},
      neighbour_guard{0.5F},
      token_list<5>{{1, 2, 3, 5, 8}},
      probability_of<2>{{1, 2}},
      end_penalty{0.4F},
      no_end_before{2},
      hold_end{},
      end_last{},
      temperature{0.8F},
      sampling{0.9F},
      keep_top_k{4},
      keep_top_p{0.9F},
      keep_min_p{0.1F},
      confidence_of_kept{},
      stop_at_end{},
      stop_sequence<2>{{1, 2}},
      step_budget{30},
      slow_fast{}});
  use(policy{left_to_right{},
             confidence_above{0.6F} || early_commit{} || steady_leader{} || local_leap{} || independent_timesteps{9} || entropy_bound{0.3F} ||
                 adaptive_threshold{.start = 0.6F} || stable_and_confident{.confidence = 0.4F},
             hold_end{},
             end_last{},
             edit_settled{0.6F},
             remask_below{0.3F},
             temperature{0.8F},
             sampling{0.9F},
             keep_top_k{4},
             keep_top_p{0.9F},
             keep_min_p{0.1F},
             stop_at_end{},
             stop_sequence<2>{{1, 2}},
             step_budget{30},
             sequential_blocks{}});
  use(policy{by_confidence{},
             confidence_above{0.6F} || early_commit{} || steady_leader{} || local_leap{} || confidence_at_least{0.7F} || scheduled{5} || factor{0.5F} ||
                 entropy_bound{0.3F} || hierarchical{},
             logit_bias<1>{{{2, 0.5F}}},
             repetition_penalty<4>{},
             count_penalty<4>{0.3F, 0.1F},
             neighbour_guard{0.5F},
             token_list<5>{{1, 2, 3, 5, 8}},
             probability_of<2>{{1, 2}},
             end_penalty{0.4F},
             no_end_before{2},
             hold_end{},
             edit_settled{0.6F},
             reopen_below{0.3F},
             lookahead{.branches = 2},
             temperature{0.8F},
             sampling{0.9F},
             stop_at_end{},
             stop_sequence<2>{{1, 2}},
             step_budget{30},
             sequential_blocks{},
             trace_credit<6>{},
             adaptive_credit<6>{}});
  use(policy{left_to_right{},
             confidence_above{0.6F} || early_commit{} || steady_leader{} || local_leap{} || scheduled{5} || independent_timesteps{9} ||
                 entropy_bound{0.3F},
             logit_bias<1>{{{2, 0.5F}}},
             repetition_penalty<4>{},
             count_penalty<4>{0.3F, 0.1F},
             neighbour_guard{0.5F},
             token_list<5>{{1, 2, 3, 5, 8}},
             probability_of<2>{{1, 2}},
             end_penalty{0.4F},
             no_end_before{2},
             hold_end{},
             end_last{},
             temperature{0.8F},
             keep_top_k{4},
             keep_top_p{0.9F},
             keep_min_p{0.1F},
             confidence_of_kept{},
             stop_at_end{},
             stop_sequence<2>{{1, 2}},
             step_budget{30},
             canvas{.vocab = 12, .steps = 6, .certain = 0.5F}});
  use(policy{by_margin{},
             top_k{2} || timesteps{9} || independent_timesteps{9} ||
                 profile_threshold<8>{.threshold = 0.5F},
             lookahead{.branches = 2},
             keep_top_k{4},
             keep_top_p{0.9F},
             keep_min_p{0.1F},
             confidence_of_kept{},
             edited_blocks{}});
  use(policy{by_confidence{},
             confidence_at_least{0.7F} || top_k{2} || scheduled{5} || factor{0.5F} ||
                 entropy_bound{0.3F} || hierarchical{} || profile_threshold<8>{.threshold = 0.5F},
             end_last{},
             edit_settled{0.6F},
             remask_below{0.3F},
             keep_top_k{4},
             keep_top_p{0.9F},
             keep_min_p{0.1F},
             confidence_of_kept{},
             block_pipeline{}});
  use(policy{loosely{by_margin{}, 0.5F},
             confidence_above{0.6F} || early_commit{} || steady_leader{} || local_leap{} || top_k{2} || timesteps{9} || entropy_bound{0.3F},
             edit_settled{0.6F},
             remask_below{0.3F},
             sampling{0.9F},
             keep_top_k{4},
             keep_top_p{0.9F},
             keep_min_p{0.1F},
             confidence_of_kept{},
             slow_fast{}});
  use(policy{by_entropy{},
             confidence_at_least{0.7F} || scheduled{5} || independent_timesteps{9} ||
                 entropy_bound{0.3F},
             edit_settled{0.6F},
             reopen_below{0.3F},
             lookahead{.branches = 2},
             whole_sequence{},
             trace_credit<6>{},
             adaptive_credit<6>{}});
}

/// Calls use(policy) for the second half.
void for_other_compositions(const auto& use) {
  use(policy{
      left_to_right{},
      (top_k{2} || timesteps{9} || profile_threshold<8>{.threshold = 0.5F}) &&
          at_frontier{.reach = 2},
      sequential_blocks{},
      trace_credit<6>{},
      adaptive_credit<6>{}});
  use(policy{at_random{},
             confidence_at_least{0.7F} || top_k{2} || timesteps{9} ||
                 profile_threshold<8>{.threshold = 0.5F},
             canvas{.vocab = 12, .steps = 6, .certain = 0.5F},
             trace_credit<6>{},
             adaptive_credit<6>{}});
  use(policy{left_to_right{},
             top_k{2} || profile_threshold<8>{.threshold = 0.5F},
             repetition_penalty<4>{},
             reopen_below{0.3F},
             lookahead{.branches = 2},
             slow_fast{},
             trace_credit<6>{},
             adaptive_credit<6>{}});
  use(policy{at_random{},
             confidence_above{0.6F} || early_commit{} || steady_leader{} || local_leap{} || top_k{2} || independent_timesteps{9} ||
                 adaptive_threshold{.start = 0.6F} || stable_and_confident{.confidence = 0.4F},
             remask_below{0.3F},
             temperature{0.8F},
             whole_sequence{}});
  use(policy{at_random{},
             (confidence_above{0.6F} || early_commit{} || steady_leader{} || local_leap{} || adaptive_threshold{.start = 0.6F} ||
              stable_and_confident{.confidence = 0.4F}) &&
                 at_frontier{.reach = 2},
             sampling{0.9F},
             step_budget{30},
             block_pipeline{}});
  use(policy{by_entropy{},
             timesteps{9} || adaptive_threshold{.start = 0.6F} ||
                 stable_and_confident{.confidence = 0.4F},
             end_last{},
             remask_below{0.3F},
             stop_sequence<2>{{1, 2}},
             slow_fast{}});
  use(policy{by_entropy{},
             (confidence_at_least{0.7F} || timesteps{9} || adaptive_threshold{.start = 0.6F} ||
              stable_and_confident{.confidence = 0.4F}) &&
                 at_frontier{.reach = 2},
             sampling{0.9F},
             stop_at_end{},
             step_budget{30},
             edited_blocks{}});
  use(policy{by_margin{},
             confidence_above{0.6F},
             neighbour_guard{0.5F},
             edit_settled{0.6F},
             reopen_below{0.3F},
             edited_blocks{},
             trace_credit<6>{},
             adaptive_credit<6>{}});
  use(policy{by_margin{},
             confidence_at_least{0.7F} || top_k{2} || scheduled{5} ||
                 adaptive_threshold{.start = 0.6F} || stable_and_confident{.confidence = 0.4F},
             hold_end{},
             end_last{},
             canvas{.vocab = 12, .steps = 6, .certain = 0.5F}});
  use(policy{at_random{},
             entropy_bound{0.3F},
             hold_end{},
             edit_settled{0.6F},
             lookahead{.branches = 2},
             sampling{0.9F},
             keep_top_p{0.9F},
             keep_min_p{0.1F},
             confidence_of_kept{},
             sequential_blocks{}});
  use(policy{by_confidence{}, factor{0.5F} || hierarchical{}, slow_fast{}});
  use(policy{by_confidence{}, factor{0.5F} || hierarchical{}, edited_blocks{}});
  use(policy{by_confidence{},
             factor{0.5F} || hierarchical{},
             canvas{.vocab = 12, .steps = 6, .certain = 0.5F}});
  use(policy{by_confidence{},
             (timesteps{9} || independent_timesteps{9} || factor{0.5F} || hierarchical{}) &&
                 at_frontier{.reach = 2},
             logit_bias<1>{{{2, 0.5F}}},
             repetition_penalty<4>{},
             count_penalty<4>{0.3F, 0.1F},
             whole_sequence{}});
}

}  // namespace unmask::testing
