// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/decided.hpp>
#include <unmask/core/validate.hpp>
#include <unmask/named/own_parts.hpp>
#include <unmask/named/replay_by_address.hpp>
#include <unmask/policy/remask/edit_committed.hpp>
#include <unmask/policy/remask/joint_threshold_indel.hpp>
#include <unmask/policy/schedule/block_at_delimiter.hpp>
#include <unmask/policy/schedule/daedal.hpp>
#include <unmask/policy/schedule/pipeline.hpp>
#include <unmask/policy/schedule/rho_eos.hpp>
#include <unmask/policy/schedule/schedule.hpp>
#include <unmask/policy/schedule/self_speculation.hpp>
#include <unmask/policy/schedule/sliding_block.hpp>
#include <unmask/policy/schedule/slow_fast.hpp>
#include <unmask/policy/stop.hpp>

namespace UNMASK_NAMESPACE {

/// A schedule selected at run time; some of them rewrite blocks, and decide alone.
struct any_schedule {
  using rules = choice_of_stage<part_stage::schedule,
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
                                replay_by_address>;
  rules rule;
  index_t text_index = -1;  ///< the part's place among those of the policy as written

  using sequence_state = rules::sequence_states;
  using step_reduction = rules::step_reductions;

  static constexpr statistics required = rules::required;
  static constexpr bool paces = true;
  static constexpr bool rewrites_blocks = true;
  static constexpr index_t tracks = joint_threshold_indel::tracks;

  UNMASK_LIBRARY void check(const sequence_shape& g, const model_info& m) const;
  UNMASK_LIBRARY void check_attention(const model_info& m) const;

  [[nodiscard]] statistics required_now() const { return rule.required_now(); }

  [[nodiscard]] UNMASK_LIBRARY index_t reach(const sequence_shape& g) const;

  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const sequence_shape& g) const {
    return rule.visit([&g](const auto& r) { return detail::extra_forwards_of(r, g); });
  }

  [[nodiscard]] UNMASK_HD bool reduces_now() const { return rule.does<&part_traits::reduces>(); }
  UNMASK_HD step_reduction reduce(const auto& c, auto& context) const {
    return rule.reduce_with(context, c);
  }

  UNMASK_HD void schedule(sequence_view& q, plan& next, auto& context) const {
    rule.visit_with(context, [&](const auto& r, auto& inner) { r.schedule(q, next, inner); });
  }
  [[nodiscard]] UNMASK_HD bool paces_now() const { return rule.does<&part_traits::paces>(); }

  /// True for a schedule that checks drafts or rewrites blocks.
  [[nodiscard]] UNMASK_HD bool edits_tokens_now() const {
    return verifies_now() || rewrites_blocks_now();
  }
  [[nodiscard]] UNMASK_HD bool verifies_now() const { return rule.holds<self_speculation>(); }
  [[nodiscard]] UNMASK_HD bool rewrites_blocks_now() const {
    return rule.holds<joint_threshold_indel>() || rule.holds<daedal>() || rule.holds<rho_eos>() ||
           (rule.holds<replay_by_address>() && rule.visit([](const auto& r) {
             if constexpr (requires { r.rewrites_blocks_now(); }) {
               return r.rewrites_blocks_now();
             } else {
               return false;
             }
           }));
  }
  [[nodiscard]] bool moves_text() const {
    return rule.visit_on_host([](const auto& r) { return detail::moves_text(r); });
  }
  [[nodiscard]] UNMASK_HD bool tracks_now() const { return rewrites_blocks_now(); }
  UNMASK_HD void track(tracked_list& list, auto& context) const {
    visit_rewriter(context, [&](const auto& r, auto& inner) {
      if constexpr (tracking<std::remove_cvref_t<decltype(r)>>) {
        r.track(list, inner);
      }
    });
  }
  UNMASK_HD void rewrite_block(auto& rows, auto& context) const {
    visit_rewriter(context, [&](const auto& r, auto& inner) { r.rewrite_block(rows, inner); });
  }
  [[nodiscard]] UNMASK_HD index_t begin_length(const sequence_shape& g) const {
    return rule.visit([&g](const auto& r) {
      if constexpr (growing<std::remove_cvref_t<decltype(r)>>) {
        return r.begin_length(g);
      } else {
        return g.length;
      }
    });
  }
  UNMASK_HD bool accepts(const auto& c, auto& context) const {
    return rule.visit_with(context, [&c](const auto& r, auto& inner) {
      if constexpr (verifying<std::remove_cvref_t<decltype(r)>>) {
        return r.accepts(c, inner);
      } else {
        return true;
      }
    });
  }

  [[nodiscard]] UNMASK_HD bool ends_blocks_now() const {
    return rule.does<&part_traits::ends_blocks>();
  }
  UNMASK_HD index_t block_end(const sequence_view& q, const plan& now, auto& context) const {
    return rule.visit_with(context, [&](const auto& r, auto& inner) {
      if constexpr (block_ending<std::remove_cvref_t<decltype(r)>>) {
        return r.block_end(q, now, inner);
      } else {
        return now.score.last;
      }
    });
  }

 private:
  UNMASK_HD void visit_rewriter(auto& context, const auto& use) const {
    rule.visit_with(context, [&](const auto& r, auto& inner) {
      if constexpr (block_rewriting<std::remove_cvref_t<decltype(r)>>) {
        use(r, inner);
      }
    });
  }
};
static_assert(scheduling<any_schedule> && reaching<any_schedule> && pacing<any_schedule> &&
              step_reducing<any_schedule> && block_ending<any_schedule> && verifying<any_schedule>);

#if UNMASK_DEFINES
UNMASK_LIBRARY void any_schedule::check(const sequence_shape& g, const model_info& m) const {
  rule.visit_on_host([&](const auto& r) { check_part(r, g, m); });
}

UNMASK_LIBRARY void any_schedule::check_attention(const model_info& m) const {
  rule.visit_on_host([&m](const auto& r) { detail::check_attention(r, m); });
}

UNMASK_LIBRARY index_t any_schedule::reach(const sequence_shape& g) const {
  return rule.visit_on_host([&g](const auto& r) {
    if constexpr (reaching<std::remove_cvref_t<decltype(r)>>) {
      return r.reach(g);
    } else {
      return math::min(g.block_length, g.length - g.prompt_length);
    }
  });
}
#endif

/// Stops selected at run time: at most `capacity`, called in written order.
struct any_stops
    : choice_list<choice_of_stage<part_stage::stop, stop_at_eos, stop_sequence<8>, max_steps>, 6> {
  struct sequence_state {
    rule::sequence_states of[capacity];
  };

  [[nodiscard]] UNMASK_HD bool stops_now() const { return count > 0; }
  UNMASK_HD ending stop(const sequence_view& q, auto& context) const {
    return stop_by(q, context).result;
  }
  /// The first stop that ends the sequence.
  UNMASK_HD decided<ending> stop_by(const sequence_view& q, auto& context) const {
    struct context_of_one {
      no_state state;
      rule::sequence_states& sequence;
      no_state step_reduction;
      const step_info& at;
    };
    decided<ending> first{ending::running, -1};
    for (index_t i = 0; i < count && first.result == ending::running; ++i) {
      context_of_one one{{}, context.sequence.of[i], {}, context.at};
      first = {
          rules[i].visit_with(one, [&q](const auto& r, auto& inner) { return r.stop(q, inner); }),
          text_indices[i]};
    }
    return first;
  }

  [[nodiscard]] UNMASK_HD index_t answer_end(const sequence_view& q) const {
    index_t end = q.length;
    for (index_t i = 0; i < count; ++i) {
      end = math::min(end,
                      rules[i].visit([&q](const auto& r) { return detail::answer_end_of(r, q); }));
    }
    return end;
  }
};
static_assert(delimiting<any_stops>);

}  // namespace unmask
