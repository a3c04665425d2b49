// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named/known_methods.hpp>
#include <unmask/named/part_table.hpp>

namespace UNMASK_NAMESPACE {

namespace detail::table {

/// The parts of a list; a user-defined part of several stages is in the list of its stage_of().
template <part_stage S, class T>
struct named_at {
  using type = type_list<T>;
};
// A function of the host has a name of its own: named/registered_part.hpp.
template <part_stage S, class P>
  requires declares_calls_back<P>
struct named_at<S, P> {
  using type = type_list<>;
};
template <part_stage S, class P>
struct named_at<S, of_stage<S, P>> {
  using type = std::conditional_t<stage_of<P>() == S, type_list<P>, type_list<>>;
};
template <part_stage S, class... T>
typename joined<typename named_at<S, T>::type...>::type at_home(type_list<T...>);

/// True for the name of a user-defined part that a policy may have only once: a commit rule with
/// state, which two uses in an expression would share.
template <class... Own>
[[nodiscard]] constexpr bool has_one_place([[maybe_unused]] std::string_view name,
                                           type_list<Own...>) {
  return ((label_of<Own>().name == name &&
           (stages_by_name<Own>() > 1 || !std::is_same_v<sequence_state_of<Own>, no_state> ||
            !std::is_same_v<step_reduction_of<Own>, no_state>)) ||
          ... || false);
}

/// The parts that have a name, in the order of the help. A new commit rule is one more type of
/// commit_rule_family, a new schedule one more of schedule_family. Name, description and arguments
/// of a part are declared in the part.
using all_parts = typename joined<
    decltype(at_home<part_stage::ranking>(rankings{})),
    type_list<alg_temperature<by_confidence>>,
    decltype(at_home<part_stage::commit_rule>(commit_rules{})),
    decltype(at_home<part_stage::logits_processor>(logits_processor_family::list{})),
    decltype(at_home<part_stage::filter>(filter_family::list{})),
    type_list<temperature, sampling, top_k, top_p, min_p, confidence_after_truncation>,
    token_edits,
    type_list<remask_below, lookahead_by<any_lookahead_score>, drafts, beam>,
    decltype(at_home<part_stage::schedule>(schedules{})),
    decltype(at_home<part_stage::cache>(caches{})),
    type_list<key_eviction>,
    layer_rules,
    decltype(at_home<part_stage::stop>(stop_family::list{}))>::type;

/// Names of commit rules that are made of commit rules.
inline constexpr std::string_view joining[] = {"any_of", "all_of", "at_most"};

/// True if a name means something else than one part of a list with this name.
template <class... P>
[[nodiscard]] consteval bool is_taken(std::string_view name, type_list<P...>) {
  bool taken = name == "replay" || ((label_of<P>().name == name ? 1 : 0) + ... + 0) > 1;
  for (const std::string_view other : joining) {
    taken = taken || other == name;
  }
  for (const known_method& method : methods) {
    taken = taken || method.name == name;
  }
  return taken;
}
template <class... Own>
[[nodiscard]] consteval bool are_free(type_list<Own...>) {
  return (!is_taken(label_of<Own>().name, all_parts{}) && ... && true);
}
static_assert(have_one_name(own_parts{}) || are_free(proper_own_parts{}),
              "a part of UNMASK_OWN_PARTS has the name of a part or of a method of the library, or "
              "is called any_of, all_of, at_most or replay: choose another name");

template <class List>
struct entries_of;
template <class... P>
struct entries_of<type_list<P...>> {
  static constexpr known_part all[sizeof...(P)] = {known<P>::part...};
};

}  // namespace detail::table

}  // namespace unmask
