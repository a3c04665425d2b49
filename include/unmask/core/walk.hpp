// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/policy.hpp>

/// Walks over the parts of a policy that do something, by their index in leaf_list.
///
///     for_each_part<Policy, &part_traits::surveys>([&](auto at) {
///       constexpr std::size_t I = decltype(at)::value;
///       p.template part_at<I>().survey(...);
///     });
namespace UNMASK_NAMESPACE {

namespace detail {

template <class List>
struct traits_in;
template <class... Leaf>
struct traits_in<type_list<Leaf...>> {
  static constexpr part_traits all[sizeof...(Leaf)] = {traits_of<Leaf>...};
};

/// The parts of a policy that do what `Does` says, and how many there are.
template <class Policy, bool part_traits::*Does>
struct parts_that {
  static constexpr std::size_t total = Policy::leaf_total;
  struct places {
    std::size_t at[total] = {};
    std::size_t count = 0;
  };
  static constexpr places found = [] {
    places p;
    for (std::size_t i = 0; i < total; ++i) {
      if (traits_in<typename Policy::leaf_list>::all[i].*Does) {
        p.at[p.count++] = i;
      }
    }
    return p;
  }();
  static constexpr std::size_t count = found.count;
  /// The index of the first; leaf_total without one.
  static constexpr std::size_t first = found.count > 0 ? found.at[0] : total;

  template <class Use, std::size_t... K>
  UNMASK_HD static void each(const Use& use, std::index_sequence<K...>) {
    (use(std::integral_constant<std::size_t, found.at[K]>{}), ...);
  }
  template <class Use, std::size_t... K>
  UNMASK_HD static bool any(const Use& use, std::index_sequence<K...>) {
    return (use(std::integral_constant<std::size_t, found.at[K]>{}) || ...);
  }
};

/// Calls use(std::integral_constant<std::size_t, I>{}) for each part I that does it, in written
/// order.
template <class Policy, bool part_traits::*Does, class Use>
UNMASK_HD void for_each_part([[maybe_unused]] const Use& use) {
  using parts = parts_that<Policy, Does>;
  parts::each(use, std::make_index_sequence<parts::count>{});
}

/// True when use(...) is for one of them; those behind it are not asked.
template <class Policy, bool part_traits::*Does, class Use>
[[nodiscard]] UNMASK_HD bool any_part([[maybe_unused]] const Use& use) {
  using parts = parts_that<Policy, Does>;
  return parts::any(use, std::make_index_sequence<parts::count>{});
}

/// True when a part does it with the values that it has: `ask(part)` says so, for parts that it can
/// be asked about, and all others do.
template <class Policy, bool part_traits::*Does, class Ask>
[[nodiscard]] UNMASK_HD bool any_part_now([[maybe_unused]] const Policy& p, const Ask& ask) {
  return any_part<Policy, Does>([&](auto at) {
    const auto& part = p.template part_at<decltype(at)::value>();
    if constexpr (std::is_invocable_v<const Ask&, decltype(part)>) {
      return ask(part);
    } else {
      return true;
    }
  });
}

/// The index of the first part that does it; leaf_total without one.
template <class Policy, bool part_traits::*Does>
inline constexpr std::size_t part_that = parts_that<Policy, Does>::first;

/// Most answers that the parts before part I write.
template <class Policy, std::size_t I>
inline constexpr index_t inquiries_before = [] {
  index_t sum = 0;
  for (std::size_t i = 0; i < I; ++i) {
    sum += traits_in<typename Policy::leaf_list>::all[i].inquiries;
  }
  return sum;
}();

// True when a part of the policy wants the rows behind the scored range.
template <class Policy>
[[nodiscard]] UNMASK_HD bool reads_ahead([[maybe_unused]] const Policy& p) {
  return any_part<Policy, &part_traits::reads_ahead>(
      [&p](auto at) { return p.template part_at<decltype(at)::value>().reads_ahead(); });
}

// Sum of what the parts that do it declare.
template <bool part_traits::*Does, class Policy>
[[nodiscard]] UNMASK_HD std::int64_t extra_forwards_sum(const Policy& p, const layout& g) {
  std::int64_t sum = 0;
  for_each_part<Policy, Does>([&](auto at) {
    sum = saturated_sum(sum, extra_forwards_of(p.template part_at<decltype(at)::value>(), g));
  });
  return sum;
}

/// Forward passes at the start of a sequence that may commit nothing: the most that an admission
/// declares.
template <class Policy>
[[nodiscard]] UNMASK_HD std::int64_t most_waits(const Policy& p, const layout& g) {
  std::int64_t most = 0;
  for_each_part<Policy, &part_traits::admits>([&](auto at) {
    const std::int64_t own = extra_forwards_of(p.template part_at<decltype(at)::value>(), g);
    most = own > most ? own : most;
  });
  return most;
}

/// Tokens of a sequence that may be reopened beyond those that commits outnumber: what all parts
/// that revisit declare.
template <class Policy>
[[nodiscard]] UNMASK_HD std::int64_t most_reopened(const Policy& p, const layout& g) {
  return extra_forwards_sum<&part_traits::revisits>(p, g);
}

/// Passes that may commit nothing because of the schedule or the canvas.
template <class Policy>
[[nodiscard]] UNMASK_HD std::int64_t most_idle(const Policy& p, const layout& g) {
  return extra_forwards_sum<&part_traits::idles>(p, g);
}

}  // namespace detail

/// The most forward passes that a decode takes, whatever the logits: the positions of the answer,
/// and the most that an admission declares in `extra_forwards`, and the sums of what the revisiting
/// parts and of what schedule and canvas declare. Each pass settles at least one position more than
/// it opens, apart from those declared, so that a sequence that opens n of these positions takes n
/// passes and those declared. One that is not complete after the bound, because a schedule planned
/// passes without anything to decide, ends with ending::step_budget.
///
/// Does not hold with model_info::suppress_mask = false. INT64_MAX stands for everything above.
template <class Policy>
[[nodiscard]] UNMASK_HD std::int64_t most_forwards(const Policy& p, const layout& g) {
  const std::int64_t answer = std::int64_t{g.length} - g.prompt;
  return detail::saturated_sum(
      detail::saturated_sum(answer, detail::most_waits(p, g)),
      detail::saturated_sum(detail::most_reopened(p, g), detail::most_idle(p, g)));
}

}  // namespace unmask
