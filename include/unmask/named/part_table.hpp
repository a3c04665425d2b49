// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named/argument_values.hpp>
#include <unmask/policy/commit/profile_json.hpp>

#include <array>

/// The entries of known_parts() and the effect of each part on a composition by name: put() stores
/// a part of a kind, entry_of<> makes the entry of a part from its label and knobs.
namespace UNMASK_NAMESPACE::detail::table {

using parts = named_policy&;
using values = const argument_values&;

/// alg_temperature has one name for all its orders.
template <class T>
inline constexpr bool is_with_temperature = false;
template <class R>
inline constexpr bool is_with_temperature<alg_temperature<R>> = true;
template <class... T>
typename joined<std::conditional_t<is_with_temperature<T>, type_list<>, type_list<T>>...>::type
    but_with_temperature(type_list<T...>);
using rankings = decltype(but_with_temperature(ranking_family::list{}));
/// The parts of a list that have a name: all but the replay of a trace, which is read with its
/// file.
template <class... T>
typename joined<std::conditional_t<std::is_same_v<T, replayed_commits> ||
                                       std::is_same_v<T, replayed_schedule> ||
                                       std::is_same_v<T, replayed_edits>,
                                   type_list<>,
                                   type_list<T>>...>::type but_replays(type_list<T...>);
using commit_rules = decltype(but_replays(commit_rule_family::list{}));
using schedules = decltype(but_replays(schedule_family::list{}));
using token_edits = decltype(but_replays(token_edit_family::list{}));
using caches = cache_family::list;
using layer_rules = layer_rule_family::list;

template <class Part, class List>
inline constexpr bool is_one_of = false;
template <class Part, class... T>
inline constexpr bool is_one_of<Part, type_list<T...>> = (std::is_same_v<Part, T> || ...);

/// Names of the rankings on which others are based.
inline constexpr std::string_view orders = "by_confidence|by_margin|by_entropy|left_to_right";
inline constexpr std::string_view lookahead_scores = "by_confidence|by_margin|by_entropy";
inline constexpr std::string_view features = "hidden|input|query|key|value";

// Number of tracked or probed tokens that the parts of a list need together.
[[nodiscard]] inline index_t sum_of(const logits_processor_family& l, const auto& of) {
  index_t sum = 0;
  l.each([&](const auto& part, index_t) { sum += of(part); });
  return sum;
}

// Adds a part that a policy may have only once.
template <class P>
void push_only(auto& list, values v, const P& part, index_t text_index) {
  bool there = list.template holds<P>();
  v.take_only(there, P::label.name);
  list.push(part, text_index);
}

// Stores a part that a policy may have only once.
template <class P>
void put_only(placed<P>& place, parts p, values v, const P& part) {
  bool there = place.text_index >= 0;
  v.take_only(there, P::label.name);
  place = {part, p.count};
}

void process(parts p, values v, const auto& part) {
  const auto fail_above = [&v](index_t count, index_t most, const char* what) {
    if (count > most) {
      v.fail("a policy by name has at most " + std::to_string(most) + " " + what + ", got " +
             std::to_string(count));
    }
  };
  fail_above(p.logits_processors.count + 1,
             logits_processor_family::capacity,
             "parts that edit or probe tokens");
  p.logits_processors.push(part, p.count);
  const auto tracked = [](const auto& r) {
    using rule = std::remove_cvref_t<decltype(r)>;
    if constexpr (!std::is_same_v<position_state_of<rule>, no_state>) {
      return index_t{0};
    } else if constexpr (requires { r.count; }) {
      return r.count;
    } else {
      return index_t{rule::tracks};
    }
  };
  const auto probed = [](const auto& r) {
    if constexpr (probing<std::remove_cvref_t<decltype(r)>>) {
      return r.count;
    } else {
      return index_t{0};
    }
  };
  fail_above(sum_of(p.logits_processors, tracked),
             logits_processor_family::most_tracked,
             "tokens tracked at a position");
  fail_above(sum_of(p.logits_processors, probed),
             logits_processor_family::most_probed,
             "tokens probed at a position");
}

/// The type of a part in the list of a stage: another one for a user-defined part of several.
template <part_stage S, class P>
using stored = std::conditional_t<is_one_of<P, proper_own_parts>, part_of_stage<S, P>, P>;
template <part_stage S, class P, class List>
inline constexpr bool is_in = is_one_of<stored<S, P>, List>;
template <part_stage S, class P>
[[nodiscard]] stored<S, P> in_stage(const P& part) {
  if constexpr (std::is_same_v<stored<S, P>, P>) {
    return part;
  } else {
    return {part};
  }
}

/// Stores a part in each stage that has it: a user-defined part may be in several.
template <class P>
void put(parts p, values v, const P& part) {
  constexpr bool ranks = is_in<part_stage::ranking, P, rankings>;
  constexpr bool commits = is_in<part_stage::commit_rule, P, commit_rules>;
  constexpr bool edits = is_in<part_stage::logits_processor, P, logits_processor_family::list>;
  constexpr bool stops = is_in<part_stage::stop, P, stop_family::list>;
  constexpr bool schedules_ = is_in<part_stage::schedule, P, schedules>;
  constexpr bool caches_ = is_in<part_stage::cache, P, caches>;
  constexpr bool filters = is_in<part_stage::filter, P, filter_family::list>;
  if constexpr (ranks) {
    p.ranking.choose(in_stage<part_stage::ranking>(part), p.count);
  }
  if constexpr (commits) {
    if (p.commit_rule.size() == commit_rule_expression::capacity) {
      v.fail("a commit rule has at most " + std::to_string(commit_rule_expression::capacity) +
             " parts, got another: " + std::string(P::label.name));
    }
    p.commit_rule.push(in_stage<part_stage::commit_rule>(part), p.count);
  }
  if constexpr (edits) {
    if constexpr (!std::is_same_v<position_state_of<P>, no_state>) {
      bool there = sum_of(p.logits_processors, [](const auto& r) -> index_t {
                     return traits_of<std::remove_cvref_t<decltype(r)>>.remembers ? 1 : 0;
                   }) > 0;
      v.take_only(there, "part with credit");
    }
    process(p, v, in_stage<part_stage::logits_processor>(part));
  }
  if constexpr (stops) {
    if (p.stops.count == stop_family::capacity) {
      v.fail("a policy by name has at most " + std::to_string(stop_family::capacity) +
             " stops, got another: " + std::string(P::label.name));
    }
    p.stops.push(in_stage<part_stage::stop>(part), p.count);
  }
  if constexpr (schedules_) {
    p.schedule.choose(in_stage<part_stage::schedule>(part), p.count);
    if constexpr (block_rewriting<P>) {
      p.commit_rule.push(tokens_per_step{0}, p.count);
    }
  }
  if constexpr (caches_) {
    p.cache.choose(in_stage<part_stage::cache>(part), p.count);
  }
  if constexpr (filters) {
    push_only(p.filter, v, in_stage<part_stage::filter>(part), p.count);
  }
  if constexpr (ranks || commits || edits || stops || schedules_ || caches_ || filters) {
    return;
  } else if constexpr (truncating<P>) {
    p.truncation.has_rules = true;
    p.truncation.rules = p.truncation.rules.tightened(part.kept());
  } else if constexpr (std::is_same_v<P, temperature>) {
    put_only(p.temperature, p, v, part);
  } else if constexpr (std::is_same_v<P, sampling>) {
    p.draw.choose(part, p.count);
  } else if constexpr (is_one_of<P, token_edits>) {
    push_only(p.token_edits, v, part, p.count);
  } else if constexpr (std::is_same_v<P, remask_below>) {
    put_only(p.remask, p, v, part);
  } else if constexpr (std::is_same_v<P, lookahead_by<any_lookahead_score>>) {
    put_only(p.lookahead, p, v, part);
  } else if constexpr (std::is_same_v<P, drafts>) {
    put_only(p.drafted, p, v, part);
  } else if constexpr (std::is_same_v<P, beam>) {
    put_only(p.searched, p, v, part);
  } else if constexpr (std::is_same_v<P, key_eviction>) {
    bool there = p.eviction.count > 0;
    v.take_only(there, P::label.name);
    p.eviction.choose(part, p.count);
  } else {
    static_assert(is_one_of<P, type_list<>>, "put() has no place for a part of this type");
  }
}

/// Arguments of a part: those that exist in texts only, and its knobs.
template <class P, std::size_t Before, std::size_t After>
[[nodiscard]] constexpr auto arguments_of(const part_argument (&before)[Before],
                                          const part_argument (&after)[After]) {
  constexpr std::size_t knobs = knob_count<P>();
  // An argument without a name means that there are none.
  const std::size_t first = before[0].name.empty() ? 0 : Before;
  std::array<part_argument, knobs + Before + After> all{};
  all[0] = before[0];
  if constexpr (described<P>) {
    constexpr P defaults{};
    for (std::size_t i = 0; i < knobs; ++i) {
      all[first + i] = {P::knobs[i], P::knobs[i].value(defaults)};
    }
  }
  all[first + knobs] = after[0];
  return all;
}

/// Puts a part with the given knobs.
template <class P>
struct entry_of {
  static constexpr part_argument before[] = {{}};
  static constexpr part_argument after[] = {{}};
  static void add(parts p, values v) {
    P part{};
    if constexpr (described<P>) {
      v.fill(part, 0);
    }
    put(p, v, v.checked_part(part));
  }
};

template <ranking Order>
struct entry_of<alg_temperature<Order>> {
  static constexpr part_argument before[] = {{{"order", knob_kind::word, {}, orders}, 0.0}};
  static constexpr part_argument after[] = {{}};
  static void add(parts p, values v) {
    alg_temperature<Order> part{};
    v.fill(part, 1);
    const float t = v.checked_part(part).temperature;
    const auto choose = [&]<class... R>(type_list<R...>) {
      std::size_t at = 0;
      ((at++ == static_cast<std::size_t>(v.number(0)) ? p.ranking.choose(alg_temperature<R>{{}, t})
                                                      : void()),
       ...);
    };
    choose(type_list<by_confidence, by_margin, by_entropy, left_to_right>{});
  }
};

template <>
struct entry_of<lookahead_by<any_lookahead_score>> {
  using part_type = lookahead_by<any_lookahead_score>;
  static constexpr part_argument before[] = {{}};
  static constexpr part_argument after[] = {
      {{"order", knob_kind::word, {}, lookahead_scores}, 0.0}};
  static void add(parts p, values v) {
    part_type part{};
    v.fill(part, 0);
    part.order.by = static_cast<any_lookahead_score::order>(v.number(knob_count<part_type>()));
    put(p, v, v.checked_part(part));
  }
};

// In a text a layer rule may read a tensor of the layer other than the published rule's.
template <class P>
  requires is_one_of<P, layer_rules>
struct entry_of<P> {
  static constexpr part_argument before[] = {{}};
  static constexpr part_argument after[] = {
      {{"reads", knob_kind::word, {}, features}, static_cast<double>(P::reads)}};
  static void add(parts p, values v) {
    P part{};
    v.fill(part, 0);
    p.layer_rule.choose(v.checked_part(part), p.count);
    p.layer_reads = static_cast<feature>(v.number(knob_count<P>()));
  }
};

// Without a file: the rule that decodes the sequence to record, with the settings of the profile to
// be made. Whether a profile fits the blocks of a sequence is checked when the sequence starts.
template <>
struct entry_of<calibrated_threshold<>> {
  using part_type = calibrated_threshold<>;
  static constexpr part_argument before[] = {{{"file", knob_kind::file}, 0.0}};
  static constexpr part_argument after[] = {{}};
  static void add(parts p, values v) {
    part_type written{};
    v.fill(written, 1);
    put(p, v, v.given(0) ? profile_with(v, v.checked_part(written)) : v.checked_part(written));
  }

 private:
  // The profile of the file, which must have been made with the settings that are in the text.
  [[nodiscard]] static part_type profile_with(values v, const part_type& written) {
    const part_type profile = v.from_file(
        0, [](const std::string& text) { return profile_from_json<part_type::capacity>(text); });
    for (std::size_t k = 0; k < knob_count<part_type>(); ++k) {
      const part_argument wanted{part_type::knobs[k], part_type::knobs[k].value(written)};
      const part_argument found{part_type::knobs[k], part_type::knobs[k].value(profile)};
      if (v.given(k + 1) && wanted.value != found.value) {
        v.fail(std::string(wanted.name) + " of calibrated_threshold must be that of its profile, " +
               default_text(found) + ", got " + default_text(wanted));
      }
    }
    return profile;
  }
};

template <class P>
struct known {
  static constexpr auto arguments = arguments_of<P>(entry_of<P>::before, entry_of<P>::after);
  static constexpr std::size_t count = [] {
    std::size_t n = 0;
    for (const part_argument& a : arguments) {
      n += a.name.empty() ? 0 : 1;
    }
    return n;
  }();
  static constexpr known_part part{P::label.name,
                                   stage_of<P>(),
                                   P::label.about,
                                   {arguments.data(), count},
                                   traits_of<P>,
                                   &entry_of<P>::add};
};

}  // namespace unmask::detail::table
