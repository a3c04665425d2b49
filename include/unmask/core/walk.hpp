// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/policy.hpp>

/// Loops over those parts of a policy that have a trait, by their index in part_list.
///
///     for_each_part<Policy, &part_traits::reduces>([&](auto at) {
///       constexpr std::size_t I = decltype(at)::value;
///       p.template part_at<I>().reduce(...);
///     });
namespace UNMASK_NAMESPACE {

namespace detail {

template <class List>
struct traits_in;
template <class... Part>
struct traits_in<type_list<Part...>> {
  static constexpr part_traits all[sizeof...(Part)] = {traits_of<Part>...};
};

/// The parts of a policy that have the trait `Does`, and their number.
template <class Policy, bool part_traits::* Does>
struct parts_that {
  static constexpr std::size_t total = Policy::part_total;
  struct places {
    std::size_t at[total] = {};
    std::size_t count = 0;
  };
  static constexpr places found = [] {
    places p;
    for (std::size_t i = 0; i < total; ++i) {
      if (traits_in<typename Policy::part_list>::all[i].*Does) {
        p.at[p.count++] = i;
      }
    }
    return p;
  }();
  static constexpr std::size_t count = found.count;
  /// Index of the first such part; part_total if there is none.
  static constexpr std::size_t first = found.count > 0 ? found.at[0] : total;

  template <class Use, std::size_t... K>
  UNMASK_HD static constexpr void each(const Use& use, std::index_sequence<K...>) {
    (use(std::integral_constant<std::size_t, found.at[K]>{}), ...);
  }
  template <class Use, std::size_t... K>
  UNMASK_HD static constexpr bool any(const Use& use, std::index_sequence<K...>) {
    return (use(std::integral_constant<std::size_t, found.at[K]>{}) || ...);
  }
};

/// True if a policy has such a part.
template <class Policy, bool part_traits::* Does>
inline constexpr bool has_part = parts_that<Policy, Does>::count > 0;

/// Calls use(std::integral_constant<std::size_t, I>{}) for each such part I, in written order. A
/// policy has parts with few of the traits: without one nothing is compiled.
template <class Policy, bool part_traits::* Does, class Use>
UNMASK_HD constexpr void for_each_part([[maybe_unused]] const Use& use) {
  if constexpr (has_part<Policy, Does>) {
    using parts = parts_that<Policy, Does>;
    parts::each(use, std::make_index_sequence<parts::count>{});
  }
}

/// True if use(...) returns true for one of them; the parts after it are not called.
template <class Policy, bool part_traits::* Does, class Use>
[[nodiscard]] UNMASK_HD constexpr bool any_part([[maybe_unused]] const Use& use) {
  if constexpr (has_part<Policy, Does>) {
    using parts = parts_that<Policy, Does>;
    return parts::any(use, std::make_index_sequence<parts::count>{});
  } else {
    return false;
  }
}

/// Index of part I among the parts as written.
template <std::size_t I, class Policy>
[[nodiscard]] UNMASK_HD constexpr index_t text_index_of([[maybe_unused]] const Policy& p) {
  if constexpr (requires { p.template part_at<I>().text_index; }) {
    return p.template part_at<I>().text_index;
  } else {
    return static_cast<index_t>(I);
  }
}

// Calls use(visited) with a value of part I, a family.
template <std::size_t I, class Family, class Use>
struct visit_value {
  const Family& family;
  const Use& use;
  UNMASK_CALLS_HOST
  template <class Value>
  UNMASK_HD constexpr void operator()(const Value& value, index_t i) const {
    use(visited<Value, I, Family>{value, i, family.text_indices[i]});
  }
};

/// Calls use(visited) for part I or, if it is a family, for each of its values with the trait.
UNMASK_CALLS_HOST
template <std::size_t I, bool part_traits::* Does, class Policy, class Use>
UNMASK_HD constexpr void visit_part(const Policy& p, const Use& use) {
  using type = typename Policy::template part_type<I>;
  const type& part = p.template part_at<I>();
  if constexpr (is_family<type>) {
    part.template each<Does>(visit_value<I, type, Use>{part, use});
  } else {
    use(visited<type, I>{part, 0, text_index_of<I>(p)});
  }
}
/// Like visit_part(), for all parts with the trait, in written order.
template <bool part_traits::* Does, class Policy, class Use>
UNMASK_HD constexpr void visit_parts([[maybe_unused]] const Policy& p, const Use& use) {
  for_each_part<Policy, Does>([&](auto at) { visit_part<decltype(at)::value, Does>(p, use); });
}

/// True when a part is active with its current values: `ask(part)` decides for parts that accept
/// this call; all others are. A family is if one of its values with the trait is.
template <bool part_traits::* Does, class Part, class Ask>
[[nodiscard]] UNMASK_HD bool is_active(const Part& part, const Ask& ask) {
  if constexpr (is_family<Part>) {
    return part.template any<Does>(
        [&ask](const auto& value) { return is_active<Does>(value, ask); });
  } else if constexpr (std::is_invocable_v<const Ask&, const Part&>) {
    return ask(part);
  } else {
    return true;
  }
}

/// True when one of the parts with the trait is active.
template <class Policy, bool part_traits::* Does, class Ask>
[[nodiscard]] UNMASK_HD bool any_part_now([[maybe_unused]] const Policy& p, const Ask& ask) {
  return any_part<Policy, Does>(
      [&](auto at) { return is_active<Does>(p.template part_at<decltype(at)::value>(), ask); });
}

/// Index of the first part with the trait; part_total if there is none.
template <class Policy, bool part_traits::* Does>
inline constexpr std::size_t part_that = parts_that<Policy, Does>::first;

/// Most entries that the probes before part I write.
template <class Policy, std::size_t I>
inline constexpr index_t probes_before = [] {
  index_t sum = 0;
  for (std::size_t i = 0; i < I; ++i) {
    sum += traits_in<typename Policy::part_list>::all[i].probes;
  }
  return sum;
}();

// True if a part of the policy needs the rows after the scored range.
template <class Policy>
[[nodiscard]] UNMASK_HD bool reads_ahead([[maybe_unused]] const Policy& p) {
  bool any = false;
  visit_parts<&part_traits::reads_ahead>(
      p, [&any](const auto& v) { any = any || v.part.reads_ahead(); });
  return any;
}

/// Temperature of the part that draws. 0 without one if the parts are chosen at run time; 1 for
/// other policies, whose parts may read a draw.
template <class Policy>
[[nodiscard]] UNMASK_HD float draw_temperature([[maybe_unused]] const Policy& p) {
  float found = Policy::varies ? 0.0F : 1.0F;
  visit_parts<&part_traits::draws>(p,
                                   [&found](const auto& v) { found = v.part.draw_temperature(); });
  return found;
}

// Sum of the extra_forwards() of the parts with the trait.
template <bool part_traits::* Does, class Policy>
[[nodiscard]] UNMASK_HD std::int64_t extra_forwards_sum(const Policy& p, const sequence_shape& g) {
  std::int64_t sum = 0;
  visit_parts<Does>(
      p, [&](const auto& at) { sum = saturated_sum(sum, extra_forwards_of(at.part, g)); });
  return sum;
}

/// Length of a sequence at its start.
template <class Policy>
[[nodiscard]] UNMASK_HD index_t policy_begin_length([[maybe_unused]] const Policy& p,
                                                    const sequence_shape& g) {
  index_t length = g.length;
  visit_parts<&part_traits::grows>(p, [&](const auto& v) {
    length = math::min(math::max(v.part.begin_length(g), g.prompt_length), g.length);
  });
  return length;
}

/// Number of forward passes at the start of a sequence that may commit nothing: the maximum that a
/// commit rule declares. A schedule that decides alone is left out: most_idle() has its passes.
template <class Policy>
[[nodiscard]] UNMASK_HD std::int64_t most_waits(const Policy& p, const sequence_shape& g) {
  std::int64_t most = 0;
  visit_parts<&part_traits::commits>(p, [&](const auto& at) {
    using part_type = typename std::remove_cvref_t<decltype(at)>::type;
    // A schedule that decides alone declares them as a schedule.
    const std::int64_t own = scheduling<part_type> ? 0 : extra_forwards_of(at.part, g);
    most = own > most ? own : most;
  });
  return most;
}

/// Number of tokens of a sequence that may be remasked beyond the rule that commits outnumber them:
/// the sum that the parts that edit tokens, and those that remask the least certain, declare.
template <class Policy>
[[nodiscard]] UNMASK_HD std::int64_t most_remasked(const Policy& p, const sequence_shape& g) {
  std::int64_t sum = extra_forwards_sum<&part_traits::edits_tokens>(p, g);
  visit_parts<&part_traits::remasks_least>(
      p, [&](const auto& at) { sum = saturated_sum(sum, at.part.extra_remasks(g)); });
  return sum;
}

/// Number of passes that may commit nothing because of the schedule or the canvas, or because they
/// reconsider tokens.
template <class Policy>
[[nodiscard]] UNMASK_HD std::int64_t most_idle(const Policy& p, const sequence_shape& g) {
  std::int64_t sum = extra_forwards_sum<&part_traits::idles>(p, g);
  visit_parts<&part_traits::reconsiders>(
      p, [&](const auto& at) { sum = saturated_sum(sum, at.part.extra_checks(g)); });
  return sum;
}

}  // namespace detail

/// Upper bound on the forward passes of a decode, whatever the logits: the number of positions of
/// the answer, plus the maximum that a commit rule declares in `extra_forwards`, plus the sums that
/// the parts that edit tokens, and schedule and canvas, declare, and `extra_remasks`. Apart from
/// the declared passes, each pass commits at least one position more than it remasks, so that n
/// masked positions take n passes. A sequence that is not complete after the bound, because a
/// schedule planned passes without anything to decide, ends with ending::max_steps.
///
/// Does not hold with model_info::suppress_mask = false. INT64_MAX also means every larger number.
template <class Policy>
[[nodiscard]] UNMASK_HD std::int64_t most_forwards(const Policy& p, const sequence_shape& g) {
  const std::int64_t answer = std::int64_t{g.length} - g.prompt_length;
  return detail::saturated_sum(
      detail::saturated_sum(answer, detail::most_waits(p, g)),
      detail::saturated_sum(detail::most_remasked(p, g), detail::most_idle(p, g)));
}

}  // namespace unmask
