// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named/part_stage.hpp>

/// The rules for user-defined parts in policy texts, each with a sentence.
namespace UNMASK_NAMESPACE::detail {

/// Statistics that every policy by name can read, and with a comparing commit rule.
inline constexpr statistics read_by_name =
    stat::margin | stat::entropy | stat::second_moment | stat::top3_mass;
inline constexpr statistics compared_by_name = read_by_name | stat::drift | stat::divergence;

/// True if a text can spell the name: a letter or an underscore, then letters, digits and
/// underscores.
[[nodiscard]] constexpr bool is_spelt(std::string_view name) {
  bool is = !name.empty() && !(name[0] >= '0' && name[0] <= '9');
  for (const char c : name) {
    is = is &&
         ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_');
  }
  return is;
}

/// Checks names and defaults of the knobs of a part: `spells` and `differ` the names, `holds` the
/// defaults.
struct knobs_check {
  bool spells = true;
  bool differ = true;
  bool holds = true;
};
template <class P>
[[nodiscard]] consteval knobs_check check_knobs_of() {
  knobs_check found;
  if constexpr (described<P>) {
    constexpr P defaults{};
    for (std::size_t i = 0; i < knob_count<P>(); ++i) {
      const auto& k = P::knobs[i];
      found.spells = found.spells && is_spelt(k.name);
      for (std::size_t before = 0; before < i; ++before) {
        found.differ = found.differ && P::knobs[before].name != k.name;
      }
      found.holds = found.holds && (k.kind > knob_kind::whole || k.range.holds(k.value(defaults)));
    }
  }
  return found;
}

/// True if a part is in a stage of a policy by name. A commit rule calls its own filter(),
/// process() and stop(), and a layer rule its own process().
template <class P, part_stage S>
[[nodiscard]] consteval bool is_in_stage() {
  constexpr bool commits = basic_commit_rule<P>;
  switch (S) {
  case part_stage::ranking:
    return ranking<P>;
  case part_stage::commit_rule:
    return commits;
  case part_stage::logits_processor:
    return logits_processor<P> && !commits && !layer_rule<P>;
  case part_stage::filter:
    return candidate_filter<P> && !commits;
  case part_stage::schedule:
    return scheduling<P> || block_rewriting<P>;
  case part_stage::cache:
    return caching<P> || evicting<P>;
  case part_stage::layer_rule:
    return layer_rule<P>;
  case part_stage::stop:
    return stopping<P> && !commits;
  default:
    return false;
  }
}

/// Number of stages of a part, as policies by name call them.
template <class P>
[[nodiscard]] consteval int stages_by_name() {
  return int{is_in_stage<P, part_stage::ranking>()} +
         int{is_in_stage<P, part_stage::commit_rule>()} +
         int{is_in_stage<P, part_stage::logits_processor>()} +
         int{is_in_stage<P, part_stage::filter>()} + int{is_in_stage<P, part_stage::schedule>()} +
         int{is_in_stage<P, part_stage::cache>()} + int{is_in_stage<P, part_stage::layer_rule>()} +
         int{is_in_stage<P, part_stage::stop>()};
}

/// A user-defined part of several stages, as one of them calls it.
template <part_stage S, class P>
struct of_stage : P {};

/// The traits of a part without those that other stages call.
template <part_stage S, class P>
[[nodiscard]] consteval part_traits traits_in_stage() {
  part_traits t = traits_of<P>;
  const auto elsewhere = [](part_stage other, bool is_in) { return S != other && is_in; };
  if (elsewhere(part_stage::ranking, is_in_stage<P, part_stage::ranking>())) {
    t.ranks = t.ranks_by_confidence = t.ranks_by_reduction = false;
  }
  if (elsewhere(part_stage::commit_rule, is_in_stage<P, part_stage::commit_rule>())) {
    t.commits = t.costs = t.has_cost = t.needs_spans = t.anchors = t.follows_confidence = false;
    t.filters = t.reduces = t.reviews = t.stops = t.reads_ahead = false;
    t.processes_logits = t.processes = t.names_tokens = false;
    t.remasks_least = t.reconsiders = t.shadows = false;
  }
  if (elsewhere(part_stage::logits_processor, is_in_stage<P, part_stage::logits_processor>())) {
    t.processes_logits = t.processes = t.names_tokens = t.restricts = false;
  }
  if (elsewhere(part_stage::filter, is_in_stage<P, part_stage::filter>())) {
    t.filters = false;
  }
  if (elsewhere(part_stage::schedule, is_in_stage<P, part_stage::schedule>())) {
    t.schedules = t.decides_one_block = t.paces = t.idles = t.verifies = t.plans_positions = false;
    t.ends_blocks = t.reaches = t.grows = t.rewrites_blocks = false;
  }
  if (elsewhere(part_stage::cache, is_in_stage<P, part_stage::cache>())) {
    t.caches = t.reviews = false;
  }
  if (elsewhere(part_stage::stop, is_in_stage<P, part_stage::stop>())) {
    t.stops = false;
  }
  return t;
}

}  // namespace unmask::detail

namespace UNMASK_NAMESPACE {

template <part_stage S, class P>
inline constexpr part_traits traits_of<detail::of_stage<S, P>> = detail::traits_in_stage<S, P>();

}  // namespace unmask

namespace UNMASK_NAMESPACE::detail {

/// The rules for such a part.
template <class P>
consteval void check_own_part() {
  check_spelling_of_part<P>();
  check_part_functions<P>();
  constexpr part_stage stage = stage_of<P>();
  constexpr bool commits = stage == part_stage::commit_rule;
  constexpr bool is_processor = is_in_stage<P, part_stage::logits_processor>();
  constexpr bool has_no_state = std::is_same_v<position_state_of<P>, no_state> &&
                                std::is_same_v<sequence_state_of<P>, no_state> &&
                                std::is_same_v<step_reduction_of<P>, no_state>;
  static_assert(
      requires {
        { P::label.name } -> std::convertible_to<std::string_view>;
      }, "a part of UNMASK_OWN_PARTS needs a part_label, whose name texts use");
  if constexpr (requires { P::label.name; }) {
    static_assert(
        is_spelt(P::label.name),
        "the name in the part_label of a part of UNMASK_OWN_PARTS must be one that a text "
        "can spell: letters, digits and underscores, without a digit in front");
  }
  constexpr knobs_check knobs = check_knobs_of<P>();
  static_assert(knobs.spells,
                "the name of a knob must be one that a text can spell: letters, digits and "
                "underscores, without a digit in front");
  static_assert(knobs.differ, "two knobs of a part have the same name");
  static_assert(knobs.holds,
                "the default of a knob, which is the initialiser of its member, must be in the "
                "range of the knob");
  static_assert(stages_by_name<P>() > 0,
                "a part of UNMASK_OWN_PARTS is a ranking, a commit rule, a logits processor, a "
                "filter, a schedule, a cache, a layer rule or a stop; compose others as "
                "unmask::policy{...}");
  static_assert(commits && stages_by_name<P>() == 1 ? compared_by_name.contains(P::required)
                                                    : read_by_name.contains(P::required),
                "a part of UNMASK_OWN_PARTS reads confidence, margin, entropy, second_moment or "
                "top3_mass, and a commit rule without other stages also drift or divergence");
  static_assert(has_no_state || stages_by_name<P>() <= 1,
                "a part of UNMASK_OWN_PARTS with functions of several stages keeps no state, "
                "unless it is a commit rule with filter(), process() or stop(): write a part for "
                "each stage, or compose it as unmask::policy{...}");
  static_assert(has_no_state ||
                    !(stage == part_stage::ranking || is_processor || stage == part_stage::filter),
                "a ranking, logits processor or filter of UNMASK_OWN_PARTS keeps no state");
  static_assert(stage != part_stage::layer_rule || std::is_same_v<sequence_state_of<P>, no_state>,
                "a layer rule of UNMASK_OWN_PARTS keeps no state of the sequence");
  static_assert(stage != part_stage::layer_rule || stages_by_name<P>() == 1,
                "a layer rule of UNMASK_OWN_PARTS has no functions of other stages: write a part "
                "for each stage");
  static_assert(!is_processor || tracking<P>,
                "a logits processor of UNMASK_OWN_PARTS names the tokens that it reads: it has a "
                "function track and a number tracks");
  static_assert(!picking<P> && !evicting<P>,
                "a cache of UNMASK_OWN_PARTS selects ranges of positions, not single ones, and "
                "evicts no keys");
  // Functions that a policy by name does not call, or not in this stage.
  static_assert(!(logits_transform<P> || drawing<P> || truncating<P> || probing<P> ||
                  token_editing<P> || remasking<P> || gating<P> || renoising<P> || branching<P> ||
                  drafting<P> || beam_searching<P> || replanning<P>),
                "a part of UNMASK_OWN_PARTS has none of the functions transform, transform_at, "
                "draw_temperature, kept, probe, edit_token, remasks, admits, refill, conclude, "
                "replan, lookahead_score and branches, which a policy by name does not call: "
                "compose it as unmask::policy{...}");
  static_assert(!(tracking<P> || restricting<P>) || is_processor || block_rewriting<P>,
                "track() and allows() of a part of UNMASK_OWN_PARTS are called for a logits "
                "processor only: write a part of its own for them, or compose it as "
                "unmask::policy{...}");
  static_assert(commits || !(remasking_least<P> || reconsidering<P> || reading_ahead<P>),
                "remask_count(), hide_count() and reads_ahead() of a part of UNMASK_OWN_PARTS are "
                "called for a commit rule only: compose it as unmask::policy{...}");
  static_assert(!block_rewriting<P>,
                "a schedule of UNMASK_OWN_PARTS does not rewrite blocks: compose it as "
                "unmask::policy{...}");
  static_assert(!(verifying<P> || block_ending<P> || growing<P> || reaching<P>) ||
                    is_in_stage<P, part_stage::schedule>(),
                "accepts(), block_end(), begin_length() and reach() of a part of UNMASK_OWN_PARTS "
                "are called for a schedule only");
  static_assert(!step_reducing<P> || !is_in_stage<P, part_stage::cache>(),
                "reduce() of a cache of UNMASK_OWN_PARTS is not called: compose it as "
                "unmask::policy{...}");
  static_assert(
      !reviewing<P> || commits || is_in_stage<P, part_stage::cache>(),
      "review() of a part of UNMASK_OWN_PARTS is called for a commit rule or a cache only");
  static_assert(
      !attending<P> || commits || is_in_stage<P, part_stage::schedule>(),
      "the attention of a part of UNMASK_OWN_PARTS is that of a commit rule or a schedule");
}

/// Refuses parts that a policy by name cannot contain.
template <class P>
consteval bool own_part_goes_by_name() {
  static_assert(declares_required<P>,
                "a part must declare what it reads: static constexpr statistics required = ...");
  static_assert(__is_trivially_copyable(P),
                "a part must be trivially copyable: no pointers to owned memory, no virtual "
                "functions");
  if constexpr (declares_required<P> && __is_trivially_copyable(P)) {
    check_own_part<P>();
  }
  return true;
}

}  // namespace unmask::detail
