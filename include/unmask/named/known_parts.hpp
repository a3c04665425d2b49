// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named/part_table.hpp>

namespace UNMASK_NAMESPACE {

namespace detail::table {

/// The parts that have a name, in the order of the help. A family is the list of alternatives of
/// its choice: a new commit rule is one more type of commit_rule_part, a new schedule one more of
/// any_schedule. Name, description and arguments of a part are declared in the part.
using all_parts = typename joined<
    rankings,
    type_list<alg_temperature<by_confidence>>,
    commit_rules,
    logits_processor_list::rule::list,
    any_filters::rule::list,
    type_list<temperature, sampling, top_k, top_p, min_p, confidence_after_truncation>,
    token_edits,
    type_list<remask_below, lookahead_by<any_lookahead_score>, drafts, beam>,
    schedules,
    type_list<canvas>,
    caches,
    type_list<key_eviction>,
    layer_rules,
    any_stops::rule::list>::type;

template <class List>
struct entries_of;
template <class... P>
struct entries_of<type_list<P...>> {
  static constexpr known_part all[sizeof...(P)] = {known<P>::part...};
};

}  // namespace detail::table

}  // namespace unmask
