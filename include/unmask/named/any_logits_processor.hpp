// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/decided.hpp>
#include <unmask/named/own_parts.hpp>
#include <unmask/named/replay_by_address.hpp>
#include <unmask/policy/logits/credit.hpp>
#include <unmask/policy/logits/eos.hpp>
#include <unmask/policy/logits/probability.hpp>
#include <unmask/policy/logits/repetition.hpp>
#include <unmask/policy/logits/tokens.hpp>
#include <unmask/policy/remask/edit_committed.hpp>
#include <unmask/policy/remask/remask_below.hpp>

namespace UNMASK_NAMESPACE {

/// Logits processors selected at run time: at most `capacity` of the parts below, in written order,
/// one of which may be trace_credit or adaptive_credit.
///
/// The others together track at most `most_tracked` tokens at a position, and probe at most
/// `most_probed`.
struct logits_processor_sizes {
  static constexpr index_t most_tracked = 128;
  static constexpr index_t most_probed = 16;
  static constexpr index_t slots = 64;
  static constexpr index_t most_tokens = 16;
};
struct logits_processor_list
    : logits_processor_sizes,
      choice_list<choice_of_stage<part_stage::logits_processor,
                                  trace_credit<logits_processor_sizes::slots>,
                                  adaptive_credit<logits_processor_sizes::slots>,
                                  logit_bias<logits_processor_sizes::most_tokens>,
                                  repetition_penalty<>,
                                  presence_frequency_penalty<>,
                                  neighbour_penalty,
                                  allowed_tokens<logits_processor_sizes::most_tokens>,
                                  probability_of<logits_processor_sizes::most_tokens>,
                                  eos_penalty,
                                  min_new_tokens>,
                  8> {};

/// Runs the parts of such a list.
struct any_logits_processors : logits_processor_list {
  using position_state = trace_credit<slots>::position_state;

  static constexpr statistics required = stat::confidence;
  static constexpr index_t tracks = most_tracked + slots;
  static constexpr index_t probes = most_probed;
  static constexpr bool reads_sequence = true;
  static constexpr bool processes_committed = true;

  [[nodiscard]] UNMASK_HD bool processes_now() const { return count > 0; }
  [[nodiscard]] UNMASK_HD bool reads_sequence_now() const {
    return any_does<&part_traits::reads_sequence>();
  }
  [[nodiscard]] UNMASK_HD bool probes_now() const { return any_does<&part_traits::is_probe>(); }

  [[nodiscard]] UNMASK_HD bool tracks_now() const { return count > 0; }
  UNMASK_HD void track(auto& list, auto& context) const {
    for_each(context, [&](const auto& r) { r.track(list, context); });
  }

  /// At a masked position the edits run here, in written order with the probes.
  UNMASK_HD index_t probe(auto& row, auto& context, token_probability* out) const {
    index_t probe_results = 0;
    for_each(context, [&](const auto& r) {
      if constexpr (probing<std::remove_cvref_t<decltype(r)>>) {
        probe_results += r.probe(row, context, out + probe_results);
      } else {
        r.process(row, context);
      }
    });
    return probe_results;
  }

  UNMASK_HD bool allows(token_id token, const step_info& at) const {
    bool all = true;
    for (index_t i = 0; i < count; ++i) {
      all = all && rules[i].visit([&](const auto& r) {
        if constexpr (restricting<std::remove_cvref_t<decltype(r)>>) {
          return r.allows(token, at);
        } else {
          return true;
        }
      });
    }
    return all;
  }

  UNMASK_HD void process(auto& row, auto& context) const {
    if (is_committed(context)) {
      for_each(context, [&](const auto& r) {
        if constexpr (logits_processor<std::remove_cvref_t<decltype(r)>>) {
          r.process(row, context);
        }
      });
    }
  }

 private:
  [[nodiscard]] UNMASK_HD static bool is_committed(const auto& context) {
    return !context.at.view->is_masked(context.at.position);
  }

  // Calls use(part) for the parts that process the position.
  UNMASK_HD void for_each(auto& context, const auto& use) const {
    const bool committed = is_committed(context);
    for (index_t i = 0; i < count; ++i) {
      rules[i].visit([&](const auto& r) {
        if (!committed || processing_committed<std::remove_cvref_t<decltype(r)>>) {
          use(r);
        }
      });
    }
  }
};
static_assert(tracking<any_logits_processors> && logits_processor<any_logits_processors> &&
              probing<any_logits_processors> && sequence_reading<any_logits_processors>);

/// Filters selected at run time: one of each at most.
struct any_filters
    : choice_list<choice_of_stage<part_stage::filter, eos_gate, eos_last, no_equal_neighbours>,
                  static_cast<index_t>(3 + own_parts_of<part_stage::filter>::size)> {
  [[nodiscard]] UNMASK_HD bool filters_now() const { return count > 0; }
  UNMASK_HD filter_result filter(const auto& c, const auto& beside, const auto& context) const {
    return filter_by(c, beside, context).result;
  }

  UNMASK_HD decided<filter_result>
  filter_by(const auto& c, const auto& beside, const auto& context) const {
    decided<filter_result> strictest{filter_result::keep, -1};
    for (index_t i = 0; i < count; ++i) {
      const filter_result wanted = rules[i].visit([&](const auto& r) {
        if constexpr (requires { r.filter(c, beside, context); }) {
          return r.filter(c, beside, context);
        } else {
          return r.filter(c, context);
        }
      });
      if (wanted > strictest.result) {
        strictest = {wanted, text_indices[i]};
      }
    }
    return strictest;
  }
};
static_assert(candidate_filter<any_filters>);

/// edit_committed and remask_current_below, selected at run time: one of each at most, in written
/// order; or the edits of a trace.
struct any_edits_tokens
    : choice_list<choice_of<edit_committed, remask_current_below, replay_by_address>, 2> {
  static constexpr bool tracks_current = true;

  [[nodiscard]] UNMASK_HD bool edits_tokens_now() const { return count > 0; }
  [[nodiscard]] UNMASK_HD bool tracks_current_now() const { return holds<remask_current_below>(); }
  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const sequence_shape& g) const {
    std::int64_t sum = 0;
    for (index_t i = 0; i < count; ++i) {
      sum += rules[i].visit([&g](const auto& r) { return detail::extra_forwards_of(r, g); });
    }
    return sum;
  }

  UNMASK_HD verdict edit_token(const auto& c, auto& context) const {
    return edit_token_by(c, context).result;
  }

  UNMASK_HD decided<verdict> edit_token_by(const auto& c, auto& context) const {
    decided<verdict> first{verdict::keep, -1};
    for (index_t i = 0; i < count && first.result == verdict::keep; ++i) {
      first = {rules[i].visit([&](const auto& r) { return r.edit_token(c, context); }),
               text_indices[i]};
    }
    return first;
  }
};
static_assert(token_editing<any_edits_tokens> && current_tracking<any_edits_tokens>);

}  // namespace unmask
