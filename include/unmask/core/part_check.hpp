// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/forwards.hpp>
#include <unmask/core/layer.hpp>
#include <unmask/core/part.hpp>
#include <unmask/core/review.hpp>

#include <type_traits>

/// Refuses parts whose functions a step would not call, each case with a sentence.
///
/// Refused: a function with the name of a stage that does not satisfy the stage (other arguments,
/// another return type, not const), and a declaration without the function that it belongs to. A
/// function with any other name is never called, and cannot be distinguished from the part's own
/// functions: write `static_assert(revision<my_part>)` behind a part.
namespace UNMASK_NAMESPACE::detail {

// The names of the stage functions. If P has a member of one of these names, whatever it is, the
// name is ambiguous in a class with both bases.
struct stage_names {
  int score, admits, cost, anchors, anchor_radius, edit, draw_temperature, watch, revise, inquire,
      delays, survey, review, revisit, remasks, refill, conclude, stop, schedule, replan, check,
      feed, feeds, evicts, allows, extra_forwards;
};
template <class P>
struct beside_stage_names : P, stage_names {};

// True if P has a member of that name that is not a data member.
#define UNMASK_HAS_FUNCTION(name)                                                                  \
  (!requires { &beside_stage_names<P>::name; } &&                                                  \
   !requires { requires std::is_member_object_pointer_v<decltype(&P::name)>; })

// Checks that `name`, if P has it, satisfies `is_stage`.
#define UNMASK_CHECK_FUNCTION(name, is_stage, sentence)                                            \
  static_assert((is_stage) || !UNMASK_HAS_FUNCTION(name), sentence)

template <class P>
constexpr void check_functions() {
  UNMASK_CHECK_FUNCTION(score, ranking<P>,
                        "score(candidate) or score(candidate, own) must be const and return float");
  UNMASK_CHECK_FUNCTION(admits, leaf_admission<P>,
                        "admits(candidate, standing) or admits(candidate, standing, own) must be "
                        "const and return bool");
  UNMASK_CHECK_FUNCTION(cost, costing<P>, "cost(candidate) must be const and return float");
  UNMASK_CHECK_FUNCTION(anchors, anchoring<P>,
                        "anchors(candidate) must be const and return bool, and the part must say "
                        "how far it looks for one: anchor_radius() -> index_t");
  UNMASK_CHECK_FUNCTION(anchor_radius, anchoring<P>,
                        "anchor_radius() must be const and return index_t, in a part that has "
                        "anchors(candidate)");
  UNMASK_CHECK_FUNCTION(edit, logit_edit<P>,
                        "edit(logit, token) or edit(logit, token, at) must be const and return "
                        "float");
  UNMASK_CHECK_FUNCTION(draw_temperature, drawing<P>,
                        "draw_temperature() must be const and return float");
  UNMASK_CHECK_FUNCTION(watch, watching<P>,
                        "watch(list, own) must be const, and the part must say how many tokens it "
                        "watches at a position: static constexpr index_t watches = ...");
  UNMASK_CHECK_FUNCTION(revise, revision<P>, "revise(row, own) must be const and return void");
  UNMASK_CHECK_FUNCTION(inquire, inquiring<P>,
                        "inquire(row, own, out) must be const and return index_t, and the part "
                        "must say how many answers it writes: static constexpr index_t inquiries");
  UNMASK_CHECK_FUNCTION(delays, delaying<P>,
                        "delays(candidate, own) or delays(candidate, neighbours, own) must be "
                        "const and return delay");
  UNMASK_CHECK_FUNCTION(survey, surveying<P>,
                        "survey(candidate, own) must be const and return the part's tally, which "
                        "has merge(tally)");
  UNMASK_CHECK_FUNCTION(review, reviewing<P>,
                        "review(candidate, own) must be const and return the part's tally, which "
                        "has merge(tally)");
  UNMASK_CHECK_FUNCTION(revisit, revisiting<P>,
                        "revisit(candidate, own) must be const and return verdict");
  UNMASK_CHECK_FUNCTION(remasks, remasking<P>,
                        "remasks(candidate, own) must be const and return bool");
  UNMASK_CHECK_FUNCTION(refill, renoising<P>,
                        "refill(position, own) must be const and return token_id, and so must "
                        "conclude(own)");
  UNMASK_CHECK_FUNCTION(conclude, renoising<P>,
                        "conclude(own) must be const and return token_id, and so must "
                        "refill(position, own)");
  UNMASK_CHECK_FUNCTION(stop, stopping<P>, "stop(sequence, own) must be const and return ending");
  UNMASK_CHECK_FUNCTION(schedule, scheduling<P>,
                        "schedule(sequence, plan, own) must be const and return void");
  UNMASK_CHECK_FUNCTION(replan, replanning<P>,
                        "replan(sequence, plan, own) must be const and return void, in a part that "
                        "schedules");
  UNMASK_CHECK_FUNCTION(check, checked<P> || checked_with_model<P>,
                        "check(layout) or check(layout, model_info) must be const");
  UNMASK_CHECK_FUNCTION(allows, restricting<P>,
                        "allows(token, at) must be const and return bool");
  UNMASK_CHECK_FUNCTION(extra_forwards, extending<P>,
                        "extra_forwards(layout) must be const and return std::int64_t");
  UNMASK_CHECK_FUNCTION(feed, caching<P>,
                        "feed(sequence, plan, own) must be const and return void");
  UNMASK_CHECK_FUNCTION(feeds, picking<P>,
                        "feeds(row, own) must be const and return bool, in a part that has feed()");
  UNMASK_CHECK_FUNCTION(evicts, evicting<P>,
                        "evicts(sequence, plan, own) must be const and return eviction");
}

#undef UNMASK_CHECK_FUNCTION
#undef UNMASK_HAS_FUNCTION

template <class P>
inline constexpr bool keeps_position_state = !std::is_same_v<position_state_of<P>, no_state>;
template <class P>
inline constexpr bool keeps_sequence_state = !std::is_same_v<sequence_state_of<P>, no_state>;

// True if a function takes the part's context.
template <class P>
concept decides_with_state =
    requires(const P& p, const own_candidate<P>& c, scope<P>& own) { p.score(c, own); } ||
    requires(const P& p, const own_candidate<P>& c, const standing_for<P>& s, scope<P>& own) {
      p.admits(c, s, own);
    };
template <class P>
inline constexpr bool uses_position_state =
    decides_with_state<P> || watching<P> || revision<P> || inquiring<P> || delaying<P> ||
    surveying<P> || reviewing<P> || revisiting<P> || remasking<P> || renoising<P>;
template <class P>
inline constexpr bool uses_sequence_state =
    uses_position_state<P> || stopping<P> || scheduling<P> || caching<P> || evicting<P> ||
    layer_rule<P>;

template <class P>
concept says_watches = requires { P::watches; };

// Refuses declarations without the function that they belong to.
template <class P>
constexpr void check_declarations() {
  static_assert(!keeps_position_state<P> || uses_position_state<P>,
                "this part has a position_state and no function that is given it: check the names "
                "of its functions and that they take `own`");
  static_assert(!keeps_sequence_state<P> || uses_sequence_state<P>,
                "this part has a sequence_state and no function that is given it: check the names "
                "of its functions and that they take `own`");
  static_assert(!requires { typename P::tally; } || surveying<P> || reviewing<P>,
                "this part has a tally and no survey(candidate, own) or review(candidate, own) "
                "that returns it");
  static_assert(!(surveying<P> && reviewing<P>),
                "this part has one tally and both survey(candidate, own) and review(candidate, own)");
  if constexpr (says_watches<P>) {
    static_assert(watching<P> || P::watches == 0,
                  "this part says how many tokens it watches and has no watch(list, own)");
  }
  static_assert(!requires { P::inquiries; } || inquiring<P>,
                "this part says how many answers it writes and has no inquire(row, own, out)");
  static_assert(!requires { P::needs_runs; } || leaf_admission<P>,
                "this part says needs_runs and has no admits(candidate, standing_in_run)");
  static_assert(!anchoring<P> || leaf_admission<P>,
                "this part has anchors(candidate) and no admits(candidate, standing_by_anchors)");
  static_assert(!requires { P::paces; } || scheduling<P>,
                "this part says paces and has no schedule(sequence, plan, own)");
  static_assert(!requires { P::watches_current; } || revisiting<P>,
                "this part says watches_current and has no revisit(candidate, own)");
  static_assert(!(requires { P::reads_sequence; } || requires { P::revises_settled; }) ||
                    watching<P> || revision<P>,
                "this part says how it edits rows and has neither watch(list, own) nor "
                "revise(row, own)");
}

template <class P>
constexpr void check_part_functions() {
  if constexpr (!std::is_final_v<P>) {
    check_functions<P>();
  }
  check_declarations<P>();
}

}  // namespace unmask::detail
