// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/policy.hpp>

/// Walks over the parts of a policy that do something, by their index in leaf_list.
///
///     for_each_part<Policy, &part_traits::surveys>([&](auto at) {
///       constexpr std::size_t I = decltype(at)::value;
///       p.template part_at<I>().survey(...);
///     });
namespace UNMASK_NAMESPACE::detail {

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

}  // namespace unmask::detail
