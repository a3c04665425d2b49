// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/part.hpp>

#include <utility>

/// Products of values and lists of types that kernels can read.
namespace UNMASK_NAMESPACE {

namespace detail {

// One value at index I of a product. The index makes equal types distinct bases. An empty value is
// a base class: nvcc 13 fails on the layout of some products with [[no_unique_address]] members.
template <std::size_t I, class T, bool Empty = std::is_empty_v<T> && !std::is_final_v<T>>
struct indexed {
  T value;
};
template <std::size_t I, class T>
struct indexed<I, T, true> : T {};

template <std::size_t I, class T>
[[nodiscard]] UNMASK_HD constexpr T& get_indexed(indexed<I, T>& element) {
  if constexpr (std::is_base_of_v<T, indexed<I, T>>) {
    return element;
  } else {
    return element.value;
  }
}
template <std::size_t I, class T>
[[nodiscard]] UNMASK_HD constexpr const T& get_indexed(const indexed<I, T>& element) {
  if constexpr (std::is_base_of_v<T, indexed<I, T>>) {
    return element;
  } else {
    return element.value;
  }
}

template <class Indices, class... T>
struct pack_of;

// A trivially copyable tuple that kernels can read; std::tuple is neither.
template <std::size_t... I, class... T>
struct pack_of<std::index_sequence<I...>, T...> : indexed<I, T>... {};

template <class... T>
using pack = pack_of<std::index_sequence_for<T...>, T...>;

template <class... T>
struct type_list {
  static constexpr std::size_t size = sizeof...(T);
};

template <class... Lists>
struct joined {
  using type = type_list<>;
};
template <class... A>
struct joined<type_list<A...>> {
  using type = type_list<A...>;
};
template <class... A, class... B, class... More>
struct joined<type_list<A...>, type_list<B...>, More...> {
  using type = typename joined<type_list<A..., B...>, More...>::type;
};

template <std::size_t I, class List>
struct element_at;
template <std::size_t I, class Head, class... Tail>
struct element_at<I, type_list<Head, Tail...>> : element_at<I - 1, type_list<Tail...>> {};
template <class Head, class... Tail>
struct element_at<0, type_list<Head, Tail...>> {
  using type = Head;
};

}  // namespace detail

/// Reductions of parts of several types, side by side; `no_state` for those without. Final, so that
/// a pack of packs, if all are empty, does not inherit one element twice.
template <class... Reduction>
struct reductions_beside final : detail::pack<Reduction...> {
  UNMASK_HD void merge(const reductions_beside& other) {
    merge(other, std::index_sequence_for<Reduction...>{});
  }

 private:
  template <std::size_t... I>
  UNMASK_HD void merge(const reductions_beside& other, std::index_sequence<I...>) {
    (merge_one<I, Reduction>(other), ...);
  }
  template <std::size_t I, class One>
  UNMASK_HD void merge_one([[maybe_unused]] const reductions_beside& other) {
    if constexpr (!std::is_same_v<One, no_state>) {
      detail::get_indexed<I>(*this).merge(detail::get_indexed<I>(other));
    }
  }
};

}  // namespace unmask
