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
             tokens_per_step{2} || timesteps{9} || calibrated_threshold<8>{.threshold = 0.5F},
             logit_bias<1>{{{2, 0.5F}}},
             repetition_penalty<4>{},
             presence_frequency_penalty<4>{0.3F, 0.1F},
             neighbour_penalty{0.5F},
             allowed_tokens<5>{{1, 2, 3, 5, 8}},
             probability_of<2>{{1, 2}},
             eos_penalty{0.4F},
             min_new_tokens{2},
             eos_gate{},
             eos_last{},
             edit_committed{0.6F},
             remask_current_below{0.3F},
             temperature{0.8F},
             sampling{0.9F},
             top_k{4},
             top_p{0.9F},
             min_p{0.1F},
             confidence_after_truncation{},
             stop_at_eos{},
             stop_sequence<2>{{1, 2}},
             max_steps{30},
             single_block{}});
  use(policy{by_margin{},
             threshold{0.6F} || early_commit{} || steady_leader{} || local_leap{} ||
                 threshold{0.7F, true} || steps_per_block{5} || entropy_bound{0.3F},
             logit_bias<1>{{{2, 0.5F}}},
             repetition_penalty<4>{},
             presence_frequency_penalty<4>{0.3F, 0.1F},
             neighbour_penalty{0.5F},
             allowed_tokens<5>{{1, 2, 3, 5, 8}},
             probability_of<2>{{1, 2}},
             eos_penalty{0.4F},
             min_new_tokens{2},
             eos_gate{},
             eos_last{},
             edit_committed{0.6F},
             remask_below{0.3F},
             temperature{0.8F},
             sampling{0.9F},
             stop_at_eos{},
             stop_sequence<2>{{1, 2}},
             max_steps{30},
             edited_blocks{},
             trace_credit<6>{},
             adaptive_credit<6>{}});
  use(policy{alg_temperature{by_margin{}, 0.5F},
             tokens_per_step{2} || timesteps{9} || independent_timesteps{9} ||
                 calibrated_threshold<8>{.threshold = 0.5F},
             logit_bias<1>{{{2, 0.5F}}},
             repetition_penalty<4>{},
             presence_frequency_penalty<4>{0.3F, 0.1F},
             neighbour_penalty{0.5F},
             allowed_tokens<5>{{1, 2, 3, 5, 8}},
             probability_of<2>{{1, 2}},
             eos_penalty{0.4F},
             min_new_tokens{2},
             eos_gate{},
             eos_last{},
             remask_current_below{0.3F},
             lookahead{.branches = 2},
             temperature{0.8F},
             sampling{0.9F},
             stop_at_eos{},
             stop_sequence<2>{{1, 2}},
             max_steps{30},
             block_pipeline{},
             trace_credit<6>{},
             adaptive_credit<6>{}});
  use(policy{by_entropy{},
             (threshold{0.7F, true} || steps_per_block{5} || independent_timesteps{9}) &&
                 at_frontier{.reach = 2},
             logit_bias<1>{{{2, 0.5F}}},
             repetition_penalty<4>{},
             presence_frequency_penalty<4>{0.3F, 0.1F},
             neighbour_penalty{0.5F},
             allowed_tokens<5>{{1, 2, 3, 5, 8}},
             probability_of<2>{{1, 2}},
             eos_penalty{0.4F},
             min_new_tokens{2},
             eos_gate{},
             eos_last{},
             temperature{0.8F},
             sampling{0.9F},
             top_k{4},
             top_p{0.9F},
             min_p{0.1F},
             confidence_after_truncation{},
             stop_at_eos{},
             stop_sequence<2>{{1, 2}},
             max_steps{30},
             slow_fast{}});
  use(policy{left_to_right{},
             threshold{0.6F} || early_commit{} || steady_leader{} || local_leap{} ||
                 independent_timesteps{9} || entropy_bound{0.3F} ||
                 adaptive_threshold{.start = 0.6F} || stable_and_confident{.confidence = 0.4F},
             eos_gate{},
             eos_last{},
             edit_committed{0.6F},
             remask_below{0.3F},
             temperature{0.8F},
             sampling{0.9F},
             top_k{4},
             top_p{0.9F},
             min_p{0.1F},
             stop_at_eos{},
             stop_sequence<2>{{1, 2}},
             max_steps{30},
             semi_autoregressive{}});
  use(policy{by_confidence{},
             threshold{0.6F} || early_commit{} || steady_leader{} || local_leap{} ||
                 threshold{0.7F, true} || steps_per_block{5} || factor{0.5F} ||
                 entropy_bound{0.3F} || hierarchical{},
             logit_bias<1>{{{2, 0.5F}}},
             repetition_penalty<4>{},
             presence_frequency_penalty<4>{0.3F, 0.1F},
             neighbour_penalty{0.5F},
             allowed_tokens<5>{{1, 2, 3, 5, 8}},
             probability_of<2>{{1, 2}},
             eos_penalty{0.4F},
             min_new_tokens{2},
             eos_gate{},
             edit_committed{0.6F},
             remask_current_below{0.3F},
             lookahead{.branches = 2},
             temperature{0.8F},
             sampling{0.9F},
             stop_at_eos{},
             stop_sequence<2>{{1, 2}},
             max_steps{30},
             semi_autoregressive{},
             trace_credit<6>{},
             adaptive_credit<6>{}});
  use(policy{left_to_right{},
             threshold{0.6F} || early_commit{} || steady_leader{} || local_leap{} ||
                 steps_per_block{5} || independent_timesteps{9} || entropy_bound{0.3F},
             logit_bias<1>{{{2, 0.5F}}},
             repetition_penalty<4>{},
             presence_frequency_penalty<4>{0.3F, 0.1F},
             neighbour_penalty{0.5F},
             allowed_tokens<5>{{1, 2, 3, 5, 8}},
             probability_of<2>{{1, 2}},
             eos_penalty{0.4F},
             min_new_tokens{2},
             eos_gate{},
             eos_last{},
             temperature{0.8F},
             top_k{4},
             top_p{0.9F},
             min_p{0.1F},
             confidence_after_truncation{},
             stop_at_eos{},
             stop_sequence<2>{{1, 2}},
             max_steps{30},
             canvas{.vocab = 12, .steps = 6, .certain = 0.5F}});
  use(policy{by_margin{},
             tokens_per_step{2} || timesteps{9} || independent_timesteps{9} ||
                 calibrated_threshold<8>{.threshold = 0.5F},
             lookahead{.branches = 2},
             top_k{4},
             top_p{0.9F},
             min_p{0.1F},
             confidence_after_truncation{},
             edited_blocks{}});
  use(policy{by_confidence{},
             threshold{0.7F, true} || tokens_per_step{2} || steps_per_block{5} || factor{0.5F} ||
                 entropy_bound{0.3F} || hierarchical{} ||
                 calibrated_threshold<8>{.threshold = 0.5F},
             eos_last{},
             edit_committed{0.6F},
             remask_below{0.3F},
             top_k{4},
             top_p{0.9F},
             min_p{0.1F},
             confidence_after_truncation{},
             block_pipeline{}});
  use(policy{alg_temperature{by_margin{}, 0.5F},
             threshold{0.6F} || early_commit{} || steady_leader{} || local_leap{} ||
                 tokens_per_step{2} || timesteps{9} || entropy_bound{0.3F},
             edit_committed{0.6F},
             remask_below{0.3F},
             sampling{0.9F},
             top_k{4},
             top_p{0.9F},
             min_p{0.1F},
             confidence_after_truncation{},
             slow_fast{}});
  use(policy{by_entropy{},
             threshold{0.7F, true} || steps_per_block{5} || independent_timesteps{9} ||
                 entropy_bound{0.3F},
             edit_committed{0.6F},
             remask_current_below{0.3F},
             lookahead{.branches = 2},
             single_block{},
             trace_credit<6>{},
             adaptive_credit<6>{}});
}

/// Calls use(policy) for the second half.
void for_other_compositions(const auto& use) {
  use(policy{left_to_right{},
             (tokens_per_step{2} || timesteps{9} || calibrated_threshold<8>{.threshold = 0.5F}) &&
                 at_frontier{.reach = 2},
             semi_autoregressive{},
             trace_credit<6>{},
             adaptive_credit<6>{}});
  use(policy{at_random{},
             threshold{0.7F, true} || tokens_per_step{2} || timesteps{9} ||
                 calibrated_threshold<8>{.threshold = 0.5F},
             canvas{.vocab = 12, .steps = 6, .certain = 0.5F},
             trace_credit<6>{},
             adaptive_credit<6>{}});
  use(policy{left_to_right{},
             tokens_per_step{2} || calibrated_threshold<8>{.threshold = 0.5F},
             repetition_penalty<4>{},
             remask_current_below{0.3F},
             lookahead{.branches = 2},
             slow_fast{},
             trace_credit<6>{},
             adaptive_credit<6>{}});
  use(policy{at_random{},
             threshold{0.6F} || early_commit{} || steady_leader{} || local_leap{} ||
                 tokens_per_step{2} || independent_timesteps{9} ||
                 adaptive_threshold{.start = 0.6F} || stable_and_confident{.confidence = 0.4F},
             remask_below{0.3F},
             temperature{0.8F},
             single_block{}});
  use(policy{at_random{},
             (threshold{0.6F} || early_commit{} || steady_leader{} || local_leap{} ||
              adaptive_threshold{.start = 0.6F} || stable_and_confident{.confidence = 0.4F}) &&
                 at_frontier{.reach = 2},
             sampling{0.9F},
             max_steps{30},
             block_pipeline{}});
  use(policy{by_entropy{},
             timesteps{9} || adaptive_threshold{.start = 0.6F} ||
                 stable_and_confident{.confidence = 0.4F},
             eos_last{},
             remask_below{0.3F},
             stop_sequence<2>{{1, 2}},
             slow_fast{}});
  use(policy{by_entropy{},
             (threshold{0.7F, true} || timesteps{9} || adaptive_threshold{.start = 0.6F} ||
              stable_and_confident{.confidence = 0.4F}) &&
                 at_frontier{.reach = 2},
             sampling{0.9F},
             stop_at_eos{},
             max_steps{30},
             edited_blocks{}});
  use(policy{by_margin{},
             threshold{0.6F},
             neighbour_penalty{0.5F},
             edit_committed{0.6F},
             remask_current_below{0.3F},
             edited_blocks{},
             trace_credit<6>{},
             adaptive_credit<6>{}});
  use(policy{by_margin{},
             threshold{0.7F, true} || tokens_per_step{2} || steps_per_block{5} ||
                 adaptive_threshold{.start = 0.6F} || stable_and_confident{.confidence = 0.4F},
             eos_gate{},
             eos_last{},
             canvas{.vocab = 12, .steps = 6, .certain = 0.5F}});
  use(policy{at_random{},
             entropy_bound{0.3F},
             eos_gate{},
             edit_committed{0.6F},
             lookahead{.branches = 2},
             sampling{0.9F},
             top_p{0.9F},
             min_p{0.1F},
             confidence_after_truncation{},
             semi_autoregressive{}});
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
             presence_frequency_penalty<4>{0.3F, 0.1F},
             single_block{}});
}

}  // namespace unmask::testing
