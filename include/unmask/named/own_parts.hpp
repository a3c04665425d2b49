// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named/choice.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

/// User-defined parts in policy texts.
///
/// UNMASK_OWN_PARTS names a header that lists them, quoted:
///
///     // my_parts.hpp, with -DUNMASK_OWN_PARTS='"my_parts.hpp"'
///     #include <unmask/core/policy.hpp>
///     struct seen_again { ... };  // with a part_label and its knobs
///     namespace unmask { using own_parts = part_list<seen_again>; }
///
/// Texts, their help and their errors then know these parts as they know the library's, in C++, C
/// and Python. Compile all files of a program with it, unmask::compiled among them, or none; the
/// CMake variable UNMASK_OWN_PARTS does. A part is a ranking, a commit rule, a logits processor,
/// a filter, a schedule, a cache, a layer rule or a stop; own_part_goes_by_name() says what it must
/// not have.
namespace UNMASK_NAMESPACE {

/// The stage of a part. A policy has one ranking, one commit rule (an expression) and one schedule.
enum class part_stage : std::uint8_t {
  ranking,
  commit_rule,
  logits_processor,
  probe,
  filter,
  logits_transform,
  draw,
  truncation,
  token_editing,
  remask,
  branches,
  schedule,
  cache,
  layer_rule,
  stop
};

[[nodiscard]] constexpr std::string_view to_string(part_stage s) {
  constexpr std::string_view names[] = {"ranking",
                                        "commit rule",
                                        "logits processor",
                                        "probe",
                                        "filter",
                                        "logits transform",
                                        "draw",
                                        "truncation",
                                        "token editing",
                                        "remask",
                                        "branches",
                                        "schedule",
                                        "cache",
                                        "layer rule",
                                        "stop"};
  return names[static_cast<std::size_t>(s)];
}

/// The stage of a part type.
template <class P>
[[nodiscard]] constexpr part_stage stage_of() {
  return layer_rule<P>                                      ? part_stage::layer_rule
         : block_rewriting<P>                               ? part_stage::schedule
         : ranking<P>                                       ? part_stage::ranking
         : detail::basic_commit_rule<P>                     ? part_stage::commit_rule
         : probing<P>                                       ? part_stage::probe
         : scheduling<P>                                    ? part_stage::schedule
         : token_editing<P>                                 ? part_stage::token_editing
         : remasking<P>                                     ? part_stage::remask
         : branching<P> || drafting<P> || beam_searching<P> ? part_stage::branches
         : stopping<P>                                      ? part_stage::stop
         : caching<P> || evicting<P>                        ? part_stage::cache
         : logits_processor<P>                              ? part_stage::logits_processor
         : candidate_filter<P>                              ? part_stage::filter
         : drawing<P>                                       ? part_stage::draw
         : truncating<P>                                    ? part_stage::truncation
                                                            : part_stage::logits_transform;
}

}  // namespace unmask

#if defined(UNMASK_OWN_PARTS)
#  include UNMASK_OWN_PARTS
#else
namespace UNMASK_NAMESPACE {
using own_parts = part_list<>;
}
#endif

namespace UNMASK_NAMESPACE {

namespace detail {

/// Statistics that every policy by name can read, and with a comparing commit rule.
inline constexpr statistics read_by_name =
    stat::margin | stat::entropy | stat::second_moment | stat::top3_mass;
inline constexpr statistics compared_by_name = read_by_name | stat::drift | stat::divergence;

/// Refuses parts that a policy by name cannot contain.
template <class P>
consteval bool own_part_goes_by_name() {
  constexpr part_stage stage = stage_of<P>();
  constexpr bool is_processor = stage == part_stage::logits_processor;
  constexpr bool has_no_state = std::is_same_v<position_state_of<P>, no_state> &&
                                std::is_same_v<sequence_state_of<P>, no_state> &&
                                std::is_same_v<step_reduction_of<P>, no_state>;
  static_assert(
      requires {
        { P::label.name } -> std::convertible_to<std::string_view>;
      }, "a part of UNMASK_OWN_PARTS needs a part_label, whose name texts use");
  static_assert(stage == part_stage::ranking || stage == part_stage::commit_rule || is_processor ||
                    stage == part_stage::filter || stage == part_stage::schedule ||
                    stage == part_stage::cache || stage == part_stage::layer_rule ||
                    stage == part_stage::stop,
                "a part of UNMASK_OWN_PARTS is a ranking, a commit rule, a logits processor, a "
                "filter, a schedule, a cache, a layer rule or a stop; compose others as "
                "unmask::policy{...}");
  static_assert(stage == part_stage::commit_rule ? compared_by_name.contains(P::required)
                                                 : read_by_name.contains(P::required),
                "a part of UNMASK_OWN_PARTS reads confidence, margin, entropy, second_moment or "
                "top3_mass, and a commit rule also drift or divergence");
  static_assert(has_no_state ||
                    !(stage == part_stage::ranking || is_processor || stage == part_stage::filter),
                "a ranking, logits processor or filter of UNMASK_OWN_PARTS keeps no state");
  static_assert(stage != part_stage::layer_rule || std::is_same_v<sequence_state_of<P>, no_state>,
                "a layer rule of UNMASK_OWN_PARTS keeps no state of the sequence");
  static_assert(!is_processor || tracking<P>,
                "a logits processor of UNMASK_OWN_PARTS names the tokens that it reads: it has a "
                "function track and a number tracks");
  static_assert(!picking<P> && !evicting<P>,
                "a cache of UNMASK_OWN_PARTS selects ranges of positions, not single ones, and "
                "evicts no keys");
  return true;
}

template <part_stage S, class List>
struct own_of;
template <part_stage S, class... P>
struct own_of<S, type_list<P...>> {
  static_assert((own_part_goes_by_name<P>() && ...));
  using type =
      typename joined<std::conditional_t<stage_of<P>() == S, type_list<P>, type_list<>>...>::type;
};

template <class List, class... T>
struct choice_beside;
template <class... Own, class... T>
struct choice_beside<type_list<Own...>, T...> {
  using type = choice_of<T..., Own...>;
};

template <class... P>
constexpr statistics statistics_of_own(type_list<P...>) {
  constexpr unsigned compared = (stat::drift | stat::divergence).bits & ~read_by_name.bits;
  return {((traits_of<P>.compares ? 0U : P::required.bits) | ... | 0U) & ~compared};
}

}  // namespace detail

/// User-defined parts of a stage.
template <part_stage S>
using own_parts_of = typename detail::own_of<S, own_parts>::type;

/// A choice of T and of the user-defined parts of the stage.
template <part_stage S, class... T>
using choice_of_stage = typename detail::choice_beside<own_parts_of<S>, T...>::type;

}  // namespace unmask
