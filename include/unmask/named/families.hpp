// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named/own_parts.hpp>
#include <unmask/named/replay_by_address.hpp>
#include <unmask/policy/cache/cache.hpp>
#include <unmask/policy/cache/entropy_cache.hpp>
#include <unmask/policy/cache/suffix_window.hpp>
#include <unmask/policy/callback.hpp>
#include <unmask/policy/canvas.hpp>
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
#include <unmask/policy/remask/joint_threshold_indel.hpp>
#include <unmask/policy/remask/remask_below.hpp>
#include <unmask/policy/schedule/block_at_delimiter.hpp>
#include <unmask/policy/schedule/daedal.hpp>
#include <unmask/policy/schedule/pipeline.hpp>
#include <unmask/policy/schedule/rho_eos.hpp>
#include <unmask/policy/schedule/schedule.hpp>
#include <unmask/policy/schedule/seeded_blocks.hpp>
#include <unmask/policy/schedule/self_speculation.hpp>
#include <unmask/policy/schedule/sliding_block.hpp>
#include <unmask/policy/schedule/slow_fast.hpp>
#include <unmask/policy/stop.hpp>

namespace UNMASK_NAMESPACE {

/// Statistics that a read collects for every policy composed by name, whatever its parts.
inline constexpr statistics named_statistics =
    stat::confidence | stat::margin | stat::entropy |
    detail::statistics_of_own(detail::proper_own_parts{});

using ranking_family = family_of_stage<part_stage::ranking,
                                       1,
                                       family_states::shared,
                                       by_confidence,
                                       by_margin,
                                       by_entropy,
                                       by_entropy_and_distance,
                                       left_to_right,
                                       at_random,
                                       position_frequency<>,
                                       linear_position<>,
                                       alg_temperature<by_confidence>,
                                       alg_temperature<by_margin>,
                                       alg_temperature<by_entropy>,
                                       alg_temperature<left_to_right>,
                                       callback_ranking>;

using cache_family = family_of_stage<part_stage::cache,
                                     1,
                                     family_states::shared,
                                     prefix_cache,
                                     dual_cache,
                                     block_cache,
                                     interval_cache,
                                     suffix_window,
                                     delayed_cache,
                                     entropy_cache>;
using eviction_family = family<1, family_states::shared, key_eviction>;

/// The logits processors together track at most `most_tracked` tokens at a position, trace_credit
/// and adaptive_credit (at most one of them) not counted; and probe at most `most_probed`.
struct logits_processor_sizes {
  static constexpr index_t most_tracked = 128;
  static constexpr index_t most_probed = 16;
  static constexpr index_t slots = 64;
  static constexpr index_t most_tokens = 16;
};
struct logits_processor_family
    : logits_processor_sizes,
      family_of_stage<part_stage::logits_processor,
                      8,
                      family_states::shared,
                      trace_credit<logits_processor_sizes::slots>,
                      adaptive_credit<logits_processor_sizes::slots>,
                      logit_bias<logits_processor_sizes::most_tokens>,
                      repetition_penalty<>,
                      presence_frequency_penalty<>,
                      neighbour_penalty,
                      allowed_tokens<logits_processor_sizes::most_tokens>,
                      probability_of<logits_processor_sizes::most_tokens>,
                      eos_penalty,
                      min_new_tokens> {
  static constexpr index_t tracks = most_tracked + slots;
  static constexpr index_t probes = most_probed;
};

using filter_family =
    family_of_stage<part_stage::filter,
                    static_cast<index_t>(4 + own_parts_of<part_stage::filter>::size),
                    family_states::shared,
                    eos_gate,
                    eos_last,
                    no_equal_neighbours,
                    callback_filter>;

using token_edit_family =
    family<2, family_states::shared, edit_committed, remask_current_below, replayed_edits>;

/// A canvas also draws; it is a schedule.
using draw_family = family<1, family_states::shared, sampling, replayed_draw>;

/// top_k, top_p, min_p and confidence_after_truncation together.
struct any_truncation {
  truncation rules = {};
  bool has_rules = false;

  static constexpr statistics required = stat::kept;

  [[nodiscard]] UNMASK_HD bool truncates_now() const { return has_rules; }
  [[nodiscard]] statistics required_now() const { return has_rules ? required : stat::none; }
  [[nodiscard]] UNMASK_HD truncation kept() const { return rules; }
};
static_assert(truncating<any_truncation>);

using schedule_family = family_of_stage<part_stage::schedule,
                                        1,
                                        family_states::shared,
                                        semi_autoregressive,
                                        single_block,
                                        block_pipeline,
                                        slow_fast,
                                        sliding_block,
                                        block_at_delimiter<8>,
                                        edited_blocks,
                                        joint_threshold_indel,
                                        daedal,
                                        rho_eos,
                                        self_speculation,
                                        seeded_blocks,
                                        canvas,
                                        replayed_schedule>;

using layer_rule_family = family_of_stage<part_stage::layer_rule,
                                          1,
                                          family_states::shared,
                                          early_skip,
                                          cache_budget,
                                          similarity_refresh>;

using stop_family = family_of_stage<part_stage::stop,
                                    6,
                                    family_states::own,
                                    stop_at_eos,
                                    stop_sequence<8>,
                                    max_steps,
                                    callback_stop>;

/// by_confidence, by_margin or by_entropy, selected at run time: the branch score of lookahead.
struct any_lookahead_score {
  enum class order : std::uint8_t { confidence, margin, entropy };
  order by = order::confidence;

  static constexpr statistics required = named_statistics;

  [[nodiscard]] statistics required_now() const {
    return by == order::confidence ? stat::confidence : named_statistics;
  }
  UNMASK_HD float score(const auto& c) const {
    return by == order::confidence ? by_confidence{}.score(c)
           : by == order::margin   ? by_margin{}.score(c)
                                   : by_entropy{}.score(c);
  }
};
static_assert(ranking<any_lookahead_score> && branching<lookahead_by<any_lookahead_score>>);

}  // namespace unmask
