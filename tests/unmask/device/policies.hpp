// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// The policies that the kernels are tested with: every shipped part in one of them at least, and
/// every statistic, alone and joined.

#include <unmask/core/policy.hpp>
#include <unmask/policy/cache/cache.hpp>
#include <unmask/policy/cache/entropy_cache.hpp>
#include <unmask/policy/cache/suffix_window.hpp>
#include <unmask/policy/canvas.hpp>
#include <unmask/policy/commit/adaptive.hpp>
#include <unmask/policy/commit/ascending_step_size.hpp>
#include <unmask/policy/commit/calibrated_threshold.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/commit/early_commit.hpp>
#include <unmask/policy/commit/entropy_below.hpp>
#include <unmask/policy/commit/finish.hpp>
#include <unmask/policy/commit/frechet.hpp>
#include <unmask/policy/commit/frontier.hpp>
#include <unmask/policy/commit/hierarchical.hpp>
#include <unmask/policy/commit/local_leap.hpp>
#include <unmask/policy/commit/moving_threshold.hpp>
#include <unmask/policy/commit/noise_level.hpp>
#include <unmask/policy/commit/steady_leader.hpp>
#include <unmask/policy/layers/cache_budget.hpp>
#include <unmask/policy/layers/early_skip.hpp>
#include <unmask/policy/linear_position.hpp>
#include <unmask/policy/logits/credit.hpp>
#include <unmask/policy/logits/eos.hpp>
#include <unmask/policy/logits/probability.hpp>
#include <unmask/policy/logits/repetition.hpp>
#include <unmask/policy/logits/temperature.hpp>
#include <unmask/policy/logits/tokens.hpp>
#include <unmask/policy/logits/truncation.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/position_frequency.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/remask/edit_committed.hpp>
#include <unmask/policy/remask/remask_below.hpp>
#include <unmask/policy/remask/remdm.hpp>
#include <unmask/policy/remask/running_confidence.hpp>
#include <unmask/policy/schedule/block_at_delimiter.hpp>
#include <unmask/policy/schedule/pipeline.hpp>
#include <unmask/policy/schedule/schedule.hpp>
#include <unmask/policy/schedule/sliding_block.hpp>
#include <unmask/policy/schedule/slow_fast.hpp>
#include <unmask/policy/stop.hpp>

#include <type_traits>

#include "support/stop_at_any_eos.hpp"
#include "support/three_hold.hpp"

namespace unmask::testing {

/// Decoded with constraints: candidates and edits pass their gate.
inline constexpr policy constrained{by_confidence{}, threshold{0.3F}, edit_committed{0.4F}};
inline constexpr policy sure_ones{by_confidence{}, threshold{0.3F}, stop_at_any_end{}};
inline constexpr policy few_at_a_time{by_margin{}, threshold{0.2F, true} && tokens_per_step{3}};
inline constexpr policy in_steps{by_margin{}, steps_per_block{4}, temperature{0.7F}};
inline constexpr policy bounded{
    by_entropy{}, entropy_bound{0.4F} || tokens_per_step{1}, max_steps{9}};
inline constexpr policy by_chance{at_random{}, timesteps{7}, single_block{}};
inline constexpr policy in_order{left_to_right{}, entropy_bound{0.8F}};
inline constexpr policy credited{by_confidence{}, threshold{0.3F, true}, trace_credit<8>{}};
inline constexpr policy adaptive{
    by_entropy{}, entropy_bound{0.4F}, adaptive_credit<6>{}, single_block{}, max_steps{9}};
inline constexpr policy branching_out{by_confidence{},
                                      threshold{0.4F},
                                      lookahead{.branches = 2, .lowest_share = 0.5F},
                                      block_pipeline{.add = 0.2F, .activate = 0.6F, .at_once = 3},
                                      stop_at_eos{}};
inline constexpr policy drawn{by_confidence{}, steps_per_block{4}, sampling{.temperature = 0.8F}};
inline constexpr policy drawn_plainly{
    by_margin{}, tokens_per_step{2}, sampling{}, temperature{0.5F}};
inline constexpr policy drawn_edited{
    by_confidence{},
    tokens_per_step{2},
    sampling{.temperature = 0.9F},
    presence_frequency_penalty<4>{.presence = 0.4F, .frequency = 0.2F},
    trace_credit<4>{}};
inline constexpr policy patient{by_confidence{}, adaptive_threshold{.start = 0.4F, .raise = 0.3F}};
inline constexpr policy stable{by_confidence{},
                               stable_and_confident{.confidence = 0.2F, .divergence = 0.5F}};
inline constexpr policy rewriting{by_confidence{},
                                  threshold{0.3F},
                                  edit_committed{.threshold = 0.2F},
                                  edited_blocks{.most_edits = 2}};
inline constexpr policy in_runs{
    by_confidence{}, hierarchical{.low = 0.1F, .threshold = 0.6F}, remask_below{0.3F}};
inline constexpr policy by_noise{at_random{}, independent_timesteps{6}, single_block{}};
inline constexpr policy profiled{
    by_confidence{}, calibrated_threshold<16>{.threshold = 0.3F}, suffix_window{.window = 2}};
inline constexpr policy paced{by_confidence{},
                              threshold{0.5F} || early_commit{.steps = 6, .late = 1.0F} ||
                                  (steady_leader{2} && threshold{0.2F}),
                              slow_fast{}};
inline constexpr policy redrawn{
    by_entropy{}, entropy_bound{0.5F}, canvas{.vocab = 7, .steps = 5, .certain = 0.1F}};
inline constexpr policy penalised{
    by_confidence{},
    threshold{0.4F} || local_leap{.threshold = 0.3F, .relaxed = 0.2F, .radius = 2},
    repetition_penalty<4>{.penalty = 1.5F, .window = 3},
    presence_frequency_penalty<4>{.presence = 0.4F, .frequency = 0.2F},
    neighbour_penalty{.penalty = 0.7F, .both_sides = true}};
inline constexpr policy second_thoughts{by_confidence{},
                                        threshold{0.2F} && tokens_per_step{3},
                                        remask_current_below{.confidence = 0.3F, .allowance = 2}};
inline constexpr policy late_end{left_to_right{},
                                 independent_timesteps{6},
                                 eos_penalty{0.5F},
                                 min_new_tokens{3},
                                 logit_bias<2>{{{1, 0.5F}, {3, -0.5F}}},
                                 stop_sequence<2>{{1, 2}}};
inline constexpr policy loose{alg_temperature<by_confidence>{.temperature = 0.7F},
                              entropy_bound{0.8F},
                              eos_gate{.until_first = true},
                              semi_autoregressive{}};
inline constexpr policy listed{
    at_random{}, timesteps{7}, eos_last{}, allowed_tokens<3>{{0, 2, 4}, 3, 1, 9}};

inline constexpr policy leftmost{by_confidence{},
                                 at_most{2, threshold{0.3F} || at_most{1, factor{0.4F}}} &&
                                     at_frontier{.reach = 1, .first = 1}};

inline constexpr policy asking{by_confidence{},
                               tokens_per_step{2},
                               probability_of<3>{.tokens = {1, 3, 6}, .first = 1},
                               allowed_tokens<4>{.tokens = {1, 3, 4, 5}},
                               sampling{}};

inline constexpr policy nucleus{by_confidence{},
                                tokens_per_step{2},
                                sampling{.temperature = 0.8F},
                                top_p{.p = 0.9F},
                                min_p{.ratio = 0.02F},
                                presence_frequency_penalty<4>{.presence = 0.4F, .frequency = 0.2F}};
inline constexpr policy cut_off{by_entropy{},
                                entropy_bound{0.4F} || tokens_per_step{1},
                                sampling{},
                                top_k{.k = 90},
                                confidence_after_truncation{},
                                stop_at_any_end{}};

inline constexpr policy of_three{
    by_confidence{}, three_hold{0.7F}, trace_credit<4>{}, lookahead{.branches = 2}};
inline constexpr policy of_kept_three{by_entropy{},
                                      three_hold{0.8F} || tokens_per_step{1},
                                      sampling{},
                                      top_k{.k = 5},
                                      confidence_after_truncation{}};

inline constexpr policy prefixed{by_confidence{}, threshold{0.3F}, prefix_cache{.period = 3}};
inline constexpr policy evicted{
    by_confidence{}, tokens_per_step{1}, dual_cache{.period = 4, .whole = 2}, key_eviction{}};
inline constexpr policy skipping_rows{by_confidence{},
                                      threshold{0.4F},
                                      early_skip{.floor = true, .cap = true, .confident = 0.3F},
                                      block_cache{.prompt_period = 5, .block_period = 3},
                                      trace_credit<4>{}};

/// One of them as a type, for typed tests.
template <const auto& P>
struct with {
  using policy_type = std::remove_cvref_t<decltype(P)>;
  [[nodiscard]] static const policy_type& value() { return P; }
};

/// Lists of them. `every_part` has each part of the table of policy/README.md in one policy at
/// least; for_each_policy() has more compositions.
template <class... Cases>
struct policy_list {};
using every_part_1 = policy_list<with<sure_ones>,
                                 with<in_steps>,
                                 with<credited>,
                                 with<adaptive>,
                                 with<profiled>,
                                 with<asking>,
                                 with<nucleus>,
                                 with<leftmost>,
                                 with<loose>>;
using every_part_2 = policy_list<with<branching_out>,
                                 with<drawn>,
                                 with<patient>,
                                 with<second_thoughts>,
                                 with<stable>,
                                 with<paced>,
                                 with<cut_off>>;
using every_part_3 = policy_list<with<redrawn>,
                                 with<rewriting>,
                                 with<penalised>,
                                 with<late_end>,
                                 with<in_runs>,
                                 with<listed>,
                                 with<prefixed>,
                                 with<evicted>>;
using more_compositions = policy_list<with<few_at_a_time>,
                                      with<bounded>,
                                      with<by_chance>,
                                      with<in_order>,
                                      with<drawn_plainly>,
                                      with<drawn_edited>,
                                      with<by_noise>,
                                      with<of_three>,
                                      with<of_kept_three>>;

/// Those that the parity suite decodes composed, too; the others it decodes by name (texts.hpp).
/// sure_ones and of_kept_three have parts that no text names, the second the statistics of a
/// truncated row; the text of profiled would need a file; a session test has the kernels of
/// credited. branching_out and stable have the memory of branches and of previous rows as
/// constants of the type.
using composed = policy_list<with<sure_ones>,
                             with<of_kept_three>,
                             with<profiled>,
                             with<credited>,
                             with<branching_out>,
                             with<stable>>;

/// Calls use(policy) for each of a list.
template <class... Cases>
void for_each_of(policy_list<Cases...>, const auto& use) {
  (use(Cases::value()), ...);
}

/// Calls use(policy) for each of them.
void for_each_policy(const auto& use) {
  for_each_of(every_part_1{}, use);
  for_each_of(every_part_2{}, use);
  for_each_of(every_part_3{}, use);
  for_each_of(more_compositions{}, use);
}

}  // namespace unmask::testing
