// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// The parts from which the policies of a record of decisions are drawn, with their arguments and
/// the words that an argument may be: those that there were when it was recorded. A part that came
/// later is not added here, but has cases in a second record. To record everything anew, replace
/// the list by what `unmask_hostile --parts` prints.

#include <string_view>

namespace unmask::hostile {

inline constexpr std::string_view recorded_parts[] = {
    "by_confidence",
    "by_margin",
    "by_entropy",
    "by_entropy_and_distance(distance)",
    "left_to_right",
    "at_random",
    "position_frequency(tokens, frequencies, lambda, alpha, rest)",
    "linear_position(tokens, frequencies, lambda, alpha, rest)",
    "alg_temperature(order=by_confidence|by_margin|by_entropy|left_to_right, temperature)",
    "threshold(value, inclusive)",
    "tokens_per_step(count)",
    "steps_per_block(steps, whole_block)",
    "block_deadline(passes)",
    "ascending_step_size(first, growth)",
    "factor(value, accept_last)",
    "entropy_bound(bound)",
    "frechet(margin)",
    "entropy_below(value, per_position)",
    "moving_threshold(start, end)",
    "finish(high, low)",
    "hierarchical(low, threshold)",
    "timesteps(steps, epsilon)",
    "independent_timesteps(steps, epsilon)",
    "at_frontier(reach, first, last)",
    "early_commit(steps, early, middle, late)",
    "steady_leader(steps)",
    "local_leap(threshold, relaxed, radius)",
    "adaptive_threshold(start, lower, raise, least, scope=answer|block, begin)",
    "stable_and_confident(confidence, divergence, fallback)",
    "running_confidence(steps, mode=linear|cosine, order=by_confidence|by_margin|by_entropy, "
    "remask)",
    "remdm_loop(count, ratio, loop_steps)",
    "remdm_conf(count)",
    "wino(threshold, threshold_back)",
    "core(steps, every, candidates, count, redecide, tail)",
    "calibrated_threshold(file, threshold, cap, slack, mode=block|step_block, "
    "statistic=mean|q1|median|q3|min_whisker, recorded=committed|candidates)",
    "trace_credit(strength, decay, exponent)",
    "adaptive_credit(of=answer|block)",
    "logit_bias(tokens, biases)",
    "repetition_penalty(penalty, window, prompt)",
    "presence_frequency_penalty(presence, frequency, window, prompt)",
    "neighbour_penalty(penalty, both_sides)",
    "allowed_tokens(tokens, first, last)",
    "probability_of(tokens, first, last)",
    "eos_penalty(penalty, also, falls_over)",
    "min_new_tokens(tokens, also)",
    "eos_gate(until_first, also)",
    "eos_last(also)",
    "no_equal_neighbours(eos_too)",
    "temperature(value)",
    "sampling(temperature)",
    "top_k(k)",
    "top_p(p)",
    "min_p(ratio)",
    "confidence_after_truncation",
    "edit_committed(threshold, to_mask, allowance)",
    "remask_current_below(confidence, allowance)",
    "remask_below(confidence)",
    "lookahead(branches, lowest_share, creation_weight, anchor_competes, anchor_wins, "
    "complete_wins, order=by_confidence|by_margin|by_entropy)",
    "drafts(branches, tokens, partial)",
    "beam(width, log_scores)",
    "semi_autoregressive(whole_prefix, aligned)",
    "single_block",
    "block_pipeline(add, activate, at_once, whole_canvas, ends_at_eos)",
    "slow_fast(exploration, promising, spread)",
    "sliding_block(max_block)",
    "block_at_delimiter(tokens, threshold, share)",
    "edited_blocks(most_edits, aligned, ends_at_eos, most_forwards)",
    "joint_threshold_indel(threshold, edit_threshold, most_edits, erase_token, insert_token)",
    "daedal(initial, high, low, expansion, grow_below, expand_below, end_window)",
    "rho_eos(initial, high, unit, low_density, high_density, growth=constant|linear|doubling)",
    "self_speculation(window, start)",
    "seeded_blocks(causal, aligned, sub_block)",
    "canvas(steps, coldest, hottest, stable_steps, certain, absorbing, draws)",
    "prefix_cache(period)",
    "dual_cache(period, whole)",
    "block_cache(prompt_period, block_period, reaches_back, aligned)",
    "interval_cache(prompt_period, answer_period)",
    "suffix_window(window, period)",
    "delayed_cache(period)",
    "entropy_cache(threshold, recent)",
    "key_eviction(keep, delay, pool)",
    "early_skip(weight, depths, keeps, floor, cap, first_masked, committed, confident, "
    "forgets_held, reads=hidden|input|query|key|value)",
    "cache_budget(budget, window, full_layers, share=by_change|released, scope=all|outside_window, "
    "answer_only, latest_only, whole_window, refresh_stride, reads=hidden|input|query|key|value)",
    "similarity_refresh(share, reads=hidden|input|query|key|value)",
    "stop_at_eos(whole_block)",
    "stop_sequence(tokens, min_tokens)",
    "max_steps(steps)",
};

}  // namespace unmask::hostile
