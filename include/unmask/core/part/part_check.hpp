// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/answer_end.hpp>
#include <unmask/core/part/commit.hpp>
#include <unmask/core/part/layer.hpp>
#include <unmask/core/part/part.hpp>
#include <unmask/core/part/rewriting.hpp>
#include <unmask/core/part/schedule.hpp>

#include <type_traits>

/// Refuses parts whose functions a step would not call, each case with a sentence.
///
/// Refused: a function with the name of a stage that does not satisfy the stage (other arguments,
/// another return type, not const), and a declaration without the function that it belongs to. A
/// function with any other name is never called, and cannot be distinguished from the part's own
/// functions: write `static_assert(logits_processor<my_part>)` after a part.
namespace UNMASK_NAMESPACE::detail {

// If P has a member of one of these names, whatever it is, the name is ambiguous in a class with
// both bases.
struct stage_names {
#define UNMASK_HOOK(hook, has, question, ...) __VA_ARGS__
#define UNMASK_TRAIT(trait, has, ...) __VA_ARGS__
#define UNMASK_FUNCTION(name, has, sentence) int name;
#include <unmask/core/part/hooks.inl>
  int check;
  int extra_forwards;
};
template <class P>
struct with_stage_names : P, stage_names {};

// True if P has a member of that name that is not a data member.
#define UNMASK_HAS_FUNCTION(name)                                                                  \
  (                                                                                                \
      !requires { &with_stage_names<P>::name; } &&                                                 \
      !requires { requires std::is_member_object_pointer_v<decltype(&P::name)>; })

template <class P>
consteval void check_functions() {
#define UNMASK_HOOK(hook, has, question, ...) __VA_ARGS__
#define UNMASK_TRAIT(trait, has, ...) __VA_ARGS__
#define UNMASK_FUNCTION(name, has, sentence)                                                       \
  static_assert(has || !UNMASK_HAS_FUNCTION(name), sentence);
#include <unmask/core/part/hooks.inl>
  static_assert(checked<P> || checked_with_model<P> || !UNMASK_HAS_FUNCTION(check),
                "check(sequence_shape) or check(sequence_shape, model_info) must be const");
  static_assert(extending<P> || !UNMASK_HAS_FUNCTION(extra_forwards),
                "extra_forwards(sequence_shape) must be const and return std::int64_t");
}

// Misspelt names of stage functions, with the right ones: for a part without any stage.
// clang-format off
#define UNMASK_MISSPELT_FUNCTIONS(MISSPELT)                                                        \
  MISSPELT(scores, "score(candidate)")                                                             \
  MISSPELT(rank, "score(candidate)")                                                               \
  MISSPELT(ranks, "score(candidate)")                                                              \
  MISSPELT(commit, "commits(candidate, rank_info)")                                                \
  MISSPELT(transforms, "transform(logit, token)")                                                  \
  MISSPELT(tracked, "track(list, context)")                                                        \
  MISSPELT(processes, "process(row, context)")                                                     \
  MISSPELT(process_logits, "process(row, context)")                                                \
  MISSPELT(filters, "filter(candidate, context)")                                                  \
  MISSPELT(reduces, "reduce(candidate, context)")                                                  \
  MISSPELT(reviews, "review(candidate, context)")                                                  \
  MISSPELT(edit, "edit_token(candidate, context)")                                                 \
  MISSPELT(edits, "edit_token(candidate, context)")                                                \
  MISSPELT(edits_token, "edit_token(candidate, context)")                                          \
  MISSPELT(edit_tokens, "edit_token(candidate, context)")                                          \
  MISSPELT(remask, "remasks(candidate, context)")                                                  \
  MISSPELT(stops, "stop(sequence, context)")                                                       \
  MISSPELT(should_stop, "stop(sequence, context)")                                                 \
  MISSPELT(schedules, "schedule(sequence, plan, context)")                                         \
  MISSPELT(query, "set_query(sequence, plan, context)")                                            \
  MISSPELT(sets_query, "set_query(sequence, plan, context)")                                       \
  MISSPELT(evict, "evicts(sequence, plan, context)")                                               \
  MISSPELT(admit, "admits(position, token, context)")                                              \
  MISSPELT(allow, "allows(token, at)")
// clang-format on

struct misspelt_names {
#define UNMASK_FUNCTION(name, signature) int name;
  UNMASK_MISSPELT_FUNCTIONS(UNMASK_FUNCTION)
#undef UNMASK_FUNCTION
};
template <class P>
struct with_misspelt_names : P, misspelt_names {};

// Refuses a part without any stage that has one of those functions.
template <class P>
consteval void check_spelling() {
  if constexpr (!std::is_final_v<P>) {
#define UNMASK_FUNCTION(name, signature)                                                           \
  static_assert(                                                                                   \
      requires { &with_misspelt_names<P>::name; } ||                                               \
          requires { requires std::is_member_object_pointer_v<decltype(&P::name)>; },              \
      "this part has a function " #name "(): did you mean " signature "?");
    UNMASK_MISSPELT_FUNCTIONS(UNMASK_FUNCTION)
#undef UNMASK_FUNCTION
  }
}
#undef UNMASK_MISSPELT_FUNCTIONS

// True if P is of that stage, or has a function of that name: one with a wrong signature has a
// sentence above, and a policy does not lack the part.
template <class P, bool Final = std::is_final_v<P>>
inline constexpr bool is_meant_to_rank = ranking<P> || UNMASK_HAS_FUNCTION(score);
template <class P>
inline constexpr bool is_meant_to_rank<P, true> = ranking<P>;
template <class P, bool Final = std::is_final_v<P>>
inline constexpr bool is_meant_to_commit = commit_rule<P> || UNMASK_HAS_FUNCTION(commits);
template <class P>
inline constexpr bool is_meant_to_commit<P, true> = commit_rule<P>;

#undef UNMASK_HAS_FUNCTION

template <class P>
inline constexpr bool keeps_position_state = !std::is_same_v<position_state_of<P>, no_state>;
template <class P>
inline constexpr bool keeps_sequence_state = !std::is_same_v<sequence_state_of<P>, no_state>;

// True if a function takes the part's context.
template <class P>
concept decides_with_state =
    requires(const P& p, const own_candidate<P>& c, part_context<P>& context) {
      p.score(c, context);
    } || requires(const P& p,
                  const own_candidate<P>& c,
                  const rank_info_for<P>& s,
                  part_context<P>& context) { p.commits(c, s, context); };
template <class P>
inline constexpr bool uses_position_state =
    decides_with_state<P> || tracking<P> || logits_processor<P> || probing<P> ||
    candidate_filter<P> || step_reducing<P> || reviewing<P> || token_editing<P> || remasking<P> ||
    renoising<P> || gating<P>;
template <class P>
inline constexpr bool uses_sequence_state =
    uses_position_state<P> || stopping<P> || scheduling<P> || caching<P> || evicting<P> ||
    layer_rule<P>;

template <class P>
concept declares_tracks = requires { P::tracks; };

template <class P>
concept declares_how_it_edits =
    requires { P::reads_sequence; } || requires { P::processes_committed; };

// State that a session copies byte by byte.
template <class State>
inline constexpr bool is_plain_state =
    __is_trivially_copyable(State) && std::is_default_constructible_v<State>;

// Refuses declarations without the function that they belong to.
template <class P>
consteval void check_declarations() {
  static_assert(is_plain_state<position_state_of<P>> && is_plain_state<sequence_state_of<P>> &&
                    is_plain_state<step_reduction_of<P>> && is_plain_state<layer_reduction_of<P>>,
                "the position_state, sequence_state, step_reduction and layer_reduction of a part "
                "must be trivially copyable and have a default: no std::vector or std::string, but "
                "arrays of a fixed size, as the state lies in memory that the session has "
                "allocated");
  static_assert(!keeps_position_state<P> || uses_position_state<P>,
                "this part has a position_state and no function that is given it: check the names "
                "of its functions and that they take `context`");
  static_assert(!keeps_sequence_state<P> || uses_sequence_state<P>,
                "this part has a sequence_state and no function that is given it: check the names "
                "of its functions and that they take `context`");
  static_assert(
      !requires { typename P::step_reduction; } || step_reducing<P> || reviewing<P>,
      "this part has a step reduction and no reduce(candidate, context) or "
      "review(candidate, context) that returns it");
  static_assert(!(step_reducing<P> && reviewing<P>),
                "this part has one step reduction and both reduce(candidate, context) and "
                "review(candidate, context)");
  if constexpr (declares_tracks<P>) {
    static_assert(tracking<P> || P::tracks == 0,
                  "this part declares how many tokens it tracks and has no track(list, context)");
  }
  static_assert(
      !requires { P::probes; } || probing<P>,
      "this part declares how many probabilities it writes and has no probe(row, context, out)");
  static_assert(
      !requires { P::needs_spans; } || basic_commit_rule<P>,
      "this part declares needs_spans and has no commits(candidate, rank_info_in_span)");
  static_assert(!anchoring<P> || basic_commit_rule<P>,
                "this part has anchors(candidate) and no commits(candidate, rank_info_by_anchors)");
  static_assert(
      !requires { P::paces; } || scheduling<P>,
      "this part declares paces and has no schedule(sequence, plan, context)");
  static_assert(
      !requires { P::tracks_current; } || token_editing<P> || remasking_least<P> || verifying<P> ||
          reconsidering<P>,
      "this part declares tracks_current and has no edit_token(candidate, context)");
  static_assert(!declares_how_it_edits<P> || tracking<P> || logits_processor<P>,
                "this part declares how it edits rows and has neither track(list, context) nor "
                "process(row, context)");
}

template <class P>
consteval void check_part_functions() {
  if constexpr (requires { typename P::family_type; }) {
    []<template <class...> class List, class... Part>(std::type_identity<List<Part...>>) {
      static_assert(((check_part_functions<Part>(), true) && ...));
    }(std::type_identity<typename P::list>{});
  } else {
    if constexpr (!std::is_final_v<P>) {
      check_functions<P>();
    }
    check_declarations<P>();
  }
}

}  // namespace unmask::detail
