// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named/choice.hpp>
#include <unmask/policy/logits/credit.hpp>
#include <unmask/policy/logits/end_of_text.hpp>
#include <unmask/policy/logits/probability.hpp>
#include <unmask/policy/logits/repetition.hpp>
#include <unmask/policy/logits/revise.hpp>
#include <unmask/policy/remask/edit_settled.hpp>
#include <unmask/policy/remask/revisit.hpp>

namespace UNMASK_NAMESPACE {

/// Logits processors selected at run time: at most `capacity` of the parts below, in written order,
/// one of which may be trace_credit or adaptive_credit.
///
/// The others together track at most `most_watched` tokens at a position, and probe at most
/// `most_asked`.
struct revision_list {
  static constexpr index_t capacity = 8;
  static constexpr index_t most_watched = 128;
  static constexpr index_t most_asked = 16;
  static constexpr index_t slots = 64;
  static constexpr index_t most_tokens = 16;

  using rule = choice_of<trace_credit<slots>,
                         adaptive_credit<slots>,
                         logit_bias<most_tokens>,
                         repetition_penalty<>,
                         count_penalty<>,
                         neighbour_guard,
                         token_list<most_tokens>,
                         probability_of<most_tokens>,
                         end_penalty,
                         no_end_before>;

  rule rules[capacity];
  index_t count = 0;
};

/// Runs the parts of such a list. Without `Remembers` its parts with state are not run.
template <bool Remembers>
struct any_revisions : revision_list {
  using position_state =
      std::conditional_t<Remembers, typename trace_credit<slots>::position_state, no_state>;

  static constexpr statistics required = stat::confidence;
  static constexpr index_t watches = most_watched + (Remembers ? slots : 0);
  static constexpr index_t inquiries = most_asked;
  static constexpr bool reads_sequence = true;
  static constexpr bool revises_settled = true;

  void check(const layout& g) const {
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

  UNMASK_HD void watch(auto& list, auto& own) const {
    for_each(own, [&](const auto& r) { r.watch(list, own); });
  }

  /// At a masked position the edits run here, in written order with the probes.
  UNMASK_HD index_t inquire(auto& row, auto& own, token_probability* out) const {
    index_t answers = 0;
    for_each(own, [&](const auto& r) {
      if constexpr (inquiring<std::remove_cvref_t<decltype(r)>>) {
        answers += r.inquire(row, own, out + answers);
      } else {
        r.revise(row, own);
      }
    });
    return answers;
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

  UNMASK_HD void revise(auto& row, auto& own) const {
    if (is_settled(own)) {
      for_each(own, [&](const auto& r) {
        if constexpr (revision<std::remove_cvref_t<decltype(r)>>) {
          r.revise(row, own);
        }
      });
    }
  }

 private:
  [[nodiscard]] UNMASK_HD static bool is_settled(const auto& own) {
    return !own.at.view->is_open(own.at.position);
  }

  // Calls use(part) for the parts that process the position.
  UNMASK_HD void for_each(auto& own, const auto& use) const {
    const bool settled = is_settled(own);
    for (index_t i = 0; i < count; ++i) {
      rules[i].visit([&](const auto& r) {
        using part = std::remove_cvref_t<decltype(r)>;
        constexpr bool remembers = !std::is_same_v<position_state_of<part>, no_state>;
        if constexpr (Remembers || !remembers) {
          if (!settled || revising_settled<part>) {
            use(r);
          }
        }
      });
    }
  }
};
static_assert(watching<any_revisions<true>> && revision<any_revisions<true>> &&
              inquiring<any_revisions<true>> && sequence_reading<any_revisions<true>>);

/// Any of hold_end, end_last and no_equal_neighbours, selected at run time.
struct any_delays {
  hold_end hold = {};
  end_last last = {};
  no_equal_neighbours unequal = {};
  bool holds = false;
  bool lasts = false;
  bool keeps_unequal = false;

  static constexpr statistics required = no_equal_neighbours::required;

  void check(const layout& g) const {
    check_part(hold, g);
    check_part(last, g);
  }

  UNMASK_HD delay delays(const auto& c, const auto& beside, const auto& own) const {
    const delay of_hold = holds ? hold.delays(c, own) : delay::none;
    const delay of_last = lasts ? last.delays(c, own) : delay::none;
    const delay of_equal = keeps_unequal ? unequal.delays(c, beside, own) : delay::none;
    const delay strictest = of_hold > of_last ? of_hold : of_last;
    return of_equal > strictest ? of_equal : strictest;
  }
};
static_assert(delaying<any_delays>);

/// edit_settled and reopen_below, selected at run time, in written order.
struct any_revisits {
  edit_settled edit = {};
  reopen_below reopen = {};
  bool edits = false;
  bool reopens = false;
  bool reopens_first = false;

  static constexpr statistics required = edit_settled::required;
  static constexpr bool watches_current = true;

  void check(const layout& g) const {
    check_part(edit, g);
    check_part(reopen, g);
  }

  [[nodiscard]] UNMASK_HD bool revisits_now() const { return edits || reopens; }
  [[nodiscard]] UNMASK_HD bool watches_current_now() const { return reopens; }
  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const layout& g) const {
    return reopens ? reopen.extra_forwards(g) : 0;
  }

  UNMASK_HD verdict revisit(const auto& c, auto& own) const {
    if (reopens && reopens_first) {
      const verdict v = reopen.revisit(c, own);
      if (v != verdict::keep) {
        return v;
      }
    }
    const verdict v = edits ? edit.revisit(c, own) : verdict::keep;
    return v == verdict::keep && reopens && !reopens_first ? reopen.revisit(c, own) : v;
  }
};
static_assert(revisiting<any_revisits> && current_watching<any_revisits>);

}  // namespace unmask
