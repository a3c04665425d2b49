// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/validate.hpp>
#include <unmask/policy/choice.hpp>
#include <unmask/policy/edit_settled.hpp>
#include <unmask/policy/pipeline.hpp>
#include <unmask/policy/schedule.hpp>
#include <unmask/policy/slow_fast.hpp>
#include <unmask/policy/stop.hpp>

namespace UNMASK_NAMESPACE {

/// A schedule as a value.
struct any_schedule {
  choice_of<sequential_blocks, whole_sequence, block_pipeline, slow_fast, edited_blocks> rule;

  struct sequence_state {
    sequential_blocks::sequence_state sequential;
    block_pipeline::sequence_state pipeline;
    slow_fast::sequence_state slow;
    edited_blocks::sequence_state edited;
  };
  using tally = slow_fast::tally;

  static constexpr statistics required = slow_fast::required;
  static constexpr bool paces = true;

  void check(const layout& g) const {
    rule.visit_on_host([&g](const auto& r) { check_part(r, g); });
  }

  [[nodiscard]] index_t reach(const layout& g) const {
    return rule.visit_on_host([&g](const auto& r) {
      if constexpr (reaching<std::remove_cvref_t<decltype(r)>>) {
        return r.reach(g);
      } else {
        return math::min(g.block_length, g.length - g.prompt);
      }
    });
  }

  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const layout& g) const {
    return rule.visit([&g](const auto& r) { return detail::extra_forwards_of(r, g); });
  }

  UNMASK_HD tally survey(const auto& c, auto& own) const {
    return rule.visit([&](const auto& r) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(r)>, slow_fast>) {
        return r.survey(c, own);
      } else {
        return tally{};
      }
    });
  }

  UNMASK_HD void schedule(sequence_view& q, plan& next, auto& own) const {
    if (q.open_count == 0 && !rule.holds<edited_blocks>()) {
      next.end = ending::complete;
      return;
    }
    rule.visit([&](const auto& r) {
      using part = std::remove_cvref_t<decltype(r)>;
      no_state none;
      if constexpr (std::is_same_v<part, sequential_blocks>) {
        scope<part> inner{none, own.sequence.sequential, none, own.at};
        r.schedule(q, next, inner);
      } else if constexpr (std::is_same_v<part, block_pipeline>) {
        scope<part> inner{none, own.sequence.pipeline, none, own.at};
        r.schedule(q, next, inner);
      } else if constexpr (std::is_same_v<part, slow_fast>) {
        scope<part> inner{none, own.sequence.slow, own.tally, own.at};
        r.schedule(q, next, inner);
      } else if constexpr (std::is_same_v<part, edited_blocks>) {
        scope<part> inner{none, own.sequence.edited, none, own.at};
        r.schedule(q, next, inner);
      } else {
        scope<part> inner{none, none, none, own.at};
        r.schedule(q, next, inner);
      }
    });
  }
};
static_assert(scheduling<any_schedule> && reaching<any_schedule> && pacing<any_schedule> &&
              surveying<any_schedule>);

/// Stops as a value: at most `capacity` of stop_at_end, stop_sequence and step_budget, asked in
/// written order.
struct any_stops {
  static constexpr index_t capacity = 6;
  static constexpr index_t longest = 8;  ///< tokens of a stop sequence
  using rule = choice_of<stop_at_end, step_budget, stop_sequence<longest>>;

  rule rules[capacity];
  index_t count = 0;

  struct sequence_state {
    index_t seen[capacity] = {};
  };
  static constexpr statistics required = stat::none;

  void check(const layout& g, const model_info& m) const {
    for (index_t i = 0; i < count; ++i) {
      rules[i].visit_on_host([&](const auto& r) { check_part(r, g, m); });
    }
  }

  UNMASK_HD ending stop(const sequence_view& q, auto& own) const {
    for (index_t i = 0; i < count; ++i) {
      index_t& seen = own.sequence.seen[i];
      const ending e = rules[i].visit([&](const auto& r) {
        using part = std::remove_cvref_t<decltype(r)>;
        no_state none;
        if constexpr (std::is_same_v<part, step_budget>) {
          scope<part> inner{none, none, none, own.at};
          return r.stop(q, inner);
        } else {
          typename part::sequence_state state{seen};
          scope<part> inner{none, state, none, own.at};
          const ending answer = r.stop(q, inner);
          seen = state.seen;
          return answer;
        }
      });
      if (e != ending::running) {
        return e;
      }
    }
    return ending::running;
  }
};
static_assert(stopping<any_stops>);

}  // namespace unmask
