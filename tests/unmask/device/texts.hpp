// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// The policies that the kernels are tested with by name: every part that a text may have in one of
/// them at least, alone and combined with parts of other stages. policies.hpp has those that are
/// composed in C++, too.

#include <unmask/named_policy.hpp>

namespace unmask::testing {

/// For engines that compute ranges of positions.
inline constexpr const char* decoded_texts[] = {
    "threshold(0.3) + stop_at_eos",
    "by_margin + all_of(threshold(0.2, true), tokens_per_step(3))",
    "by_margin + steps_per_block(4) + temperature(0.7)",
    "by_entropy + any_of(entropy_bound(0.4), tokens_per_step(1)) + max_steps(9)",
    "at_random + timesteps(7) + single_block",
    "left_to_right + entropy_bound(0.8)",
    "threshold(0.3, true) + trace_credit",
    "by_entropy + entropy_bound(0.4) + adaptive_credit + single_block + max_steps(9)",
    "threshold(0.4) + lookahead(2, 0.5) + block_pipeline(0.2, 0.6, 3) + stop_at_eos",
    "steps_per_block(4) + sampling(0.8)",
    "by_margin + tokens_per_step(2) + sampling + temperature(0.5)",
    "tokens_per_step(2) + sampling(0.9) + presence_frequency_penalty(0.4, 0.2) + trace_credit",
    "adaptive_threshold(0.4, raise=0.3)",
    "stable_and_confident(0.2, 0.5)",
    "threshold(0.3) + edit_committed(0.2) + edited_blocks(2)",
    "hierarchical(0.1, 0.6) + remask_below(0.3)",
    "at_random + independent_timesteps(6) + single_block",
    "any_of(threshold(0.5), early_commit(6, late=1), all_of(steady_leader(2), threshold(0.2))) + "
    "slow_fast",
    "by_entropy + entropy_bound(0.5) + canvas(steps=5, certain=0.1)",
    "any_of(threshold(0.4), local_leap(0.3, 0.2, 2)) + repetition_penalty(1.5, window=3) + "
    "presence_frequency_penalty(0.4, 0.2) + neighbour_penalty(0.7, both_sides=true)",
    "all_of(threshold(0.2), tokens_per_step(3)) + remask_current_below(0.3, 2)",
    "left_to_right + independent_timesteps(6) + eos_penalty(0.5) + min_new_tokens(3) + "
    "logit_bias([1, 3], [0.5, -0.5]) + stop_sequence([1, 2])",
    "alg_temperature(by_confidence, 0.7) + entropy_bound(0.8) + eos_gate(true) + "
    "semi_autoregressive",
    "at_random + timesteps(7) + eos_last + allowed_tokens([0, 2, 4], 1, 9)",
    "all_of(at_most(2, any_of(threshold(0.3), at_most(1, factor(0.4)))), at_frontier(1, 1))",
    "tokens_per_step(2) + probability_of([1, 3, 6], first=1) + allowed_tokens([1, 3, 4, 5]) + "
    "sampling",
    "tokens_per_step(2) + sampling(0.8) + top_p(0.9) + min_p(0.02) + "
    "presence_frequency_penalty(0.4, 0.2)",
    "by_entropy + any_of(entropy_bound(0.4), tokens_per_step(1)) + sampling + top_k(90) + "
    "confidence_after_truncation",
    "threshold(0.3) + prefix_cache(3)",
    "tokens_per_step(1) + dual_cache(4, 2) + key_eviction",
    "threshold(0.3) + suffix_window(2)",
    "threshold(0.4) + lookahead(2) + neighbour_penalty + adaptive_credit",
    "any_of(adaptive_threshold(0.4), stable_and_confident(0.3, 0.1)) + eos_last",
    "stable_and_confident(0.3, 0.1) + sampling + top_k(3) + temperature(0.7)",
    "tokens_per_step(2) + edit_committed(0.4) + remask_current_below(0.2, 5)",
    "tokens_per_step(2) + remask_below(0.4) + sampling",
    "threshold(0.95) + remask_below(0.9)",
    "threshold(0.5) + edit_committed + lookahead(2) + sampling + top_k(4)",
    "joint_threshold_indel(0.3, 0.2, 3, erase_token=2, insert_token=4)",
    "daedal(4, 0.5, 0.3, 3, 0.4, 0.6, 4)",
    "rho_eos(4, 0.5, 2, 0.3, 0.7, growth=linear)",
    "any_of(frechet(0.4), finish(0.5, 0.1), moving_threshold(0.5, 0.2)) + "
    "block_at_delimiter([1, 3], 0.1, 0.5)",
    "by_entropy_and_distance(0.1) + entropy_below(0.4, 0.1) + sliding_block(6) + stop_at_eos",
    "any_of(threshold(0.4), block_deadline(3)) + seeded_blocks(true, true, 3)",
    "any_of(threshold(0.5), steps_per_block(3, true)) + edit_committed(0.3) + "
    "edited_blocks(2, true, true, 9)",
    "any_of(threshold(0.3), tokens_per_step(1)) + canvas(5, absorbing=true, draws=false)",
    "position_frequency([1, 3], [0.2, 0.1], lambda=0.1) + "
    "any_of(entropy_below(1), ascending_step_size) + sliding_block(5)",
    "running_confidence(3, mode=cosine) + semi_autoregressive(whole_prefix=true)",
    "linear_position([1, 3], [0.2, 0.1], lambda=0.3) + remdm_loop(2, 0.5, 2) + single_block",
    "by_margin + remdm_conf(2)",
    "tokens_per_step(1) + drafts(3) + dual_cache(4, 2)",
    "by_margin + threshold(0.3) + drafts(2, 2, partial=true) + repetition_penalty(1.5)",
    "threshold(0.2) + drafts(3, partial=true) + single_block",
    "by_entropy + tokens_per_step(2) + drafts(4, 2) + single_block + stop_at_eos",
    "soar(width=3) + max_steps(9)",
    "osdt_gpqa(threshold=0.3) + no_equal_neighbours",
    "threshold(0.7) + beam(4, log_scores=true) + repetition_penalty(1.5) + single_block",
    "wino(0.3, 0.4)",
    "by_margin + any_of(wino(0.2, 0.6), threshold(0.5)) + neighbour_penalty",
    "core(3, every=1, candidates=4, count=2, tail=0) + neighbour_penalty(0.7, both_sides=true)",
    "by_margin + core(4, 1, redecide=true, tail=1) + single_block + sampling",
    "linear_spec(window=5, start=2)",
    "threshold(0.3) + self_speculation(6) + repetition_penalty(1.5) + stop_at_eos + sampling"};

/// For engines that compute single positions of a layer.
inline constexpr const char* texts_of_layers[] = {
    "threshold(0.4) + early_skip(floor=true, cap=true, confident=0.3) + block_cache(5, 3) + "
    "trace_credit",
    "by_margin + tokens_per_step(2) + cache_budget(4, 3, answer_only=true) + interval_cache(3, 4)",
    "by_entropy + any_of(entropy_bound(0.5), tokens_per_step(1)) + similarity_refresh(0.3) + "
    "single_block",
    "tokens_per_step(2) + delayed_cache(4)",
    "tokens_per_step(2) + entropy_cache(1, 3)",
    "tokens_per_step(1) + early_skip(weight=0.2) + delayed_cache(5)"};

}  // namespace unmask::testing
