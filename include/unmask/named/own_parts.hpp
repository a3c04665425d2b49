// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named/own_part_check.hpp>

#include <cstddef>
#include <string_view>

#if defined(UNMASK_OWN_PARTS)
#  include <cstdio>
#  include <cstdlib>
#endif

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
/// CMake variable UNMASK_OWN_PARTS does. Files with it and files without have types of different
/// names, so a mixture of them does not link, and libraries of one process may differ. Two lists in
/// one process need two names: -DUNMASK_OWN_PARTS_TAG=my_parts, which the CMake variable implies. A
/// part is a ranking, a commit rule, a logits processor, a filter, a schedule, a cache, a layer
/// rule or a stop; own_part_goes_by_name() states what it must not have.

#if defined(UNMASK_OWN_PARTS)
#  include UNMASK_OWN_PARTS
#else
namespace UNMASK_NAMESPACE {
using own_parts = part_list<>;
}
#endif

namespace UNMASK_NAMESPACE {

namespace detail {

/// True if two parts have one name.
template <class... P>
[[nodiscard]] consteval bool have_one_name(type_list<P...>) {
  const std::string_view names[] = {std::string_view{}, label_of<P>().name...};
  bool same = false;
  for (std::size_t i = 1; i <= sizeof...(P); ++i) {
    for (std::size_t k = 1; k < i; ++k) {
      same = same || (names[i] == names[k] && !names[i].empty());
    }
  }
  return same;
}

template <class List>
struct checked_list;
template <class... P>
struct checked_list<type_list<P...>> {
  static_assert((own_part_goes_by_name<P>() && ...));
  static_assert(!have_one_name(type_list<P...>{}), "two parts of UNMASK_OWN_PARTS have one name");
  static constexpr bool is_checked = true;
};

/// The listed parts; none if one of them is not a part, which has its message then.
template <class... P>
std::conditional_t<((declares_required<P> && __is_trivially_copyable(P)) && ... && true),
                   type_list<P...>,
                   type_list<>>
    proper_parts(type_list<P...>);
using proper_own_parts = decltype(proper_parts(own_parts{}));

/// The type of a user-defined part in the list of a stage.
template <part_stage S, class P>
using part_of_stage = std::conditional_t<(stages_by_name<P>() > 1), of_stage<S, P>, P>;

template <part_stage S, class List>
struct own_of;
template <part_stage S, class... P>
struct own_of<S, type_list<P...>> {
  static_assert(checked_list<own_parts>::is_checked);
  using type = typename joined<
      std::conditional_t<is_in_stage<P, S>(), type_list<part_of_stage<S, P>>, type_list<>>...>::
      type;
};

template <index_t Most, family_states States, class List, class... T>
struct family_beside;
template <index_t Most, family_states States, class... Own, class... T>
struct family_beside<Most, States, type_list<Own...>, T...> {
  using type = family<Most, States, T..., Own...>;
};

template <class... P>
constexpr statistics statistics_of_own(type_list<P...>) {
  constexpr unsigned compared = (stat::drift | stat::divergence).bits & ~read_by_name.bits;
  return {((traits_of<P>.compares ? 0U : P::required.bits) | ... | 0U) & ~compared};
}

}  // namespace detail

/// Defined by unmask::compiled for its own list of parts, and needed by each file that links it.
template <class OwnParts, std::size_t Bytes>
struct compile_this_file_and_unmask_compiled_with_the_same_UNMASK_OWN_PARTS {
  static const char linked;
};

namespace detail {

template <class... P>
constexpr std::size_t bytes_of(type_list<P...>) {
  return (std::size_t{0} + ... + sizeof(P));
}
using own_parts_of_library =
    compile_this_file_and_unmask_compiled_with_the_same_UNMASK_OWN_PARTS<own_parts,
                                                                         bytes_of(own_parts{})>;

}  // namespace detail

#if defined(UNMASK_COMPILED) && !defined(UNMASK_IMPLEMENTATION)
namespace {
[[gnu::used]] const char* const needs_own_parts_of_library = &detail::own_parts_of_library::linked;
}
#endif

#if defined(UNMASK_OWN_PARTS)
namespace detail {

// One object for each list of parts; its address tells them apart.
template <class OwnParts, std::size_t Bytes>
inline char list_of_own_parts = 0;
// The list that the process loaded first, of those with this UNMASK_OWN_PARTS_TAG.
inline const char* loaded_own_parts = nullptr;

// Stops a process in which two lists have one tag: functions of one would be called for the other.
[[gnu::cold]] inline bool check_loaded_own_parts(const char* list) {
  if (loaded_own_parts != nullptr && loaded_own_parts != list) {
    std::fputs("unmask: two libraries of this process have different parts in UNMASK_OWN_PARTS: "
               "compile one of them with another -DUNMASK_OWN_PARTS_TAG=name\n",
               stderr);
    std::abort();
  }
  loaded_own_parts = list;
  return true;
}

}  // namespace detail

namespace {
[[gnu::used]] const bool checked_own_parts = detail::check_loaded_own_parts(
    &detail::list_of_own_parts<own_parts, detail::bytes_of(own_parts{})>);
}
#endif

/// User-defined parts of a stage.
template <part_stage S>
using own_parts_of = typename detail::own_of<S, detail::proper_own_parts>::type;

/// A family of T and of the user-defined parts of the stage.
template <part_stage S, index_t Most, family_states States, class... T>
using family_of_stage = typename detail::family_beside<Most, States, own_parts_of<S>, T...>::type;

}  // namespace unmask
