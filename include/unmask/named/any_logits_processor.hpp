// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/decided.hpp>
#include <unmask/named/own_parts.hpp>
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
struct logits_processor_list {
  static constexpr index_t capacity = 8;
  static constexpr index_t most_tracked = 128;
  static constexpr index_t most_probed = 16;
  static constexpr index_t slots = 64;
  static constexpr index_t most_tokens = 16;

  using rule = choice_of_stage<part_stage::logits_processor,
                               trace_credit<slots>,
                               adaptive_credit<slots>,
                               logit_bias<most_tokens>,
                               repetition_penalty<>,
                               presence_frequency_penalty<>,
                               neighbour_penalty,
                               allowed_tokens<most_tokens>,
                               probability_of<most_tokens>,
                               eos_penalty,
                               min_new_tokens>;

  rule rules[capacity];
  index_t count = 0;
};

/// Runs the parts of such a list. Without `Remembers` its parts with state are not run.
template <bool Remembers>
struct any_logits_processors : logits_processor_list {
  using position_state =
      std::conditional_t<Remembers, typename trace_credit<slots>::position_state, no_state>;

  static constexpr statistics required = stat::confidence;
  static constexpr index_t tracks = most_tracked + (Remembers ? slots : 0);
  static constexpr index_t probes = most_probed;
  static constexpr bool reads_sequence = true;
  static constexpr bool processes_committed = true;

  void check(const sequence_shape& g) const {
    for (index_t i = 0; i < count; ++i) {
      rules[i].visit_on_host([&g](const auto& r) { check_part(r, g); });
    }
  }

  [[nodiscard]] UNMASK_HD bool reads_sequence_now() const {
    bool any = false;
    for (index_t i = 0; i < count; ++i) {
      any = any || rules[i].visit([](const auto& r) {
        return sequence_reading<std::remove_cvref_t<decltype(r)>>;
      });
    }
    return any;
  }

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
        using part = std::remove_cvref_t<decltype(r)>;
        constexpr bool remembers = !std::is_same_v<position_state_of<part>, no_state>;
        if constexpr (Remembers || !remembers) {
          if (!committed || processing_committed<part>) {
            use(r);
          }
        }
      });
    }
  }
};
static_assert(tracking<any_logits_processors<true>> &&
              logits_processor<any_logits_processors<true>> &&
              probing<any_logits_processors<true>> &&
              sequence_reading<any_logits_processors<true>>);

/// Any of eos_gate, eos_last and no_equal_neighbours, selected at run time.
struct any_filters {
  placed<eos_gate> hold = {};
  placed<eos_last> last = {};
  placed<no_equal_neighbours> unequal = {};
  bool holds = false;
  bool lasts = false;
  bool keeps_unequal = false;

  static constexpr statistics required = no_equal_neighbours::required;

  void check(const sequence_shape& g) const {
    check_part(hold, g);
    check_part(last, g);
  }

  UNMASK_HD filter_result filter(const auto& c, const auto& beside, const auto& context) const {
    return filter_by(c, beside, context).result;
  }

  UNMASK_HD decided<filter_result>
  filter_by(const auto& c, const auto& beside, const auto& context) const {
    decided<filter_result> strictest{filter_result::keep, -1};
    const auto add = [&strictest](filter_result wanted, index_t part) {
      const bool is_first = wanted == strictest.result && part < strictest.part;
      if (wanted > strictest.result || is_first) {
        strictest = {wanted, part};
      }
    };
    add(holds ? hold.filter(c, context) : filter_result::keep, hold.text_index);
    add(lasts ? last.filter(c, context) : filter_result::keep, last.text_index);
    add(keeps_unequal ? unequal.filter(c, beside, context) : filter_result::keep,
        unequal.text_index);
    return strictest;
  }
};
static_assert(candidate_filter<any_filters>);

/// edit_committed and remask_current_below, selected at run time, in written order.
struct any_edits_tokens {
  placed<edit_committed> edit = {};
  placed<remask_current_below> remask = {};
  bool edits = false;
  bool remasks_current = false;
  bool remasks_first = false;

  static constexpr statistics required = edit_committed::required;
  static constexpr bool tracks_current = true;

  void check(const sequence_shape& g) const {
    check_part(edit, g);
    check_part(remask, g);
  }

  [[nodiscard]] UNMASK_HD bool edits_tokens_now() const { return edits || remasks_current; }
  [[nodiscard]] UNMASK_HD bool tracks_current_now() const { return remasks_current; }
  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const sequence_shape& g) const {
    return remasks_current ? remask.extra_forwards(g) : 0;
  }

  UNMASK_HD verdict edit_token(const auto& c, auto& context) const {
    return edit_token_by(c, context).result;
  }

  UNMASK_HD decided<verdict> edit_token_by(const auto& c, auto& context) const {
    if (remasks_current && remasks_first) {
      const verdict v = remask.edit_token(c, context);
      if (v != verdict::keep) {
        return {v, remask.text_index};
      }
    }
    const verdict v = edits ? edit.edit_token(c, context) : verdict::keep;
    return v == verdict::keep && remasks_current && !remasks_first
               ? decided<verdict>{remask.edit_token(c, context), remask.text_index}
               : decided<verdict>{v, edit.text_index};
  }
};
static_assert(token_editing<any_edits_tokens> && current_tracking<any_edits_tokens>);

}  // namespace unmask
