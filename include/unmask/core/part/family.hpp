// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/attention.hpp>
#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/pack.hpp>
#include <unmask/core/part/traits.hpp>

#include <algorithm>
#include <cstddef>
#include <new>
#include <type_traits>

/// Parts that are chosen at run time.
namespace UNMASK_NAMESPACE {

/// Whether each value of a family has a state of its own, so that parts of one type may repeat; if
/// not there is one of each type of state.
// No class as template argument: nvcc 13 writes its value into the host's source without a name.
enum class family_states : bool { shared, own };

namespace detail {

template <class State>
struct held_state {
  State value;
};

// The distinct types of state, without no_state.
template <class Found, class... State>
struct distinct_states {
  using type = Found;
};
template <class... Found, class Head, class... Tail>
struct distinct_states<type_list<Found...>, Head, Tail...>
    : distinct_states<
          std::conditional_t<std::is_same_v<Head, no_state> || (std::is_same_v<Head, Found> || ...),
                             type_list<Found...>,
                             type_list<Found..., Head>>,
          Tail...> {};
template <class... State>
using distinct_states_of = typename distinct_states<type_list<>, State...>::type;

// These types as bases of one type.
template <class List>
struct states_beside;
template <class... State>
struct states_beside<type_list<State...>> {
  struct type : held_state<State>... {};
};
template <>
struct states_beside<type_list<>> {
  using type = no_state;
};
template <class... State>
using states_once = typename states_beside<distinct_states_of<State...>>::type;

template <class State, index_t Most>
struct state_each {
  struct type {
    State of[Most];
  };
};
template <index_t Most>
struct state_each<no_state, Most> {
  using type = no_state;
};

}  // namespace detail

/// Up to `Most` of these parts, chosen at run time, in written order, with their places in
/// the text; trivially copyable. A step visits them as it visits the parts of a policy: each in its
/// own type and with its own state (core/walk.hpp).
template <index_t Most, family_states States, class... Part>
class family {
 public:
  using family_type = family;
  using list = detail::type_list<Part...>;
  static constexpr index_t capacity = Most;
  static constexpr bool has_own_states = States == family_states::own;
  static constexpr statistics required = (Part::required | ... | stat::none);
  /// A trait of a family is one that any of its parts has.
  static constexpr part_traits traits = any_traits_of<Part...>();

  /// Most tokens that its values track, or probe, at a position: of one of them; a family of
  /// several declares others.
  static constexpr index_t tracks = std::max({traits_of<Part>.tracks...});
  static constexpr index_t probes = std::max({traits_of<Part>.probes...});

  template <class State>
  using of_values = std::conditional_t<(States == family_states::own),
                                       typename detail::state_each<State, capacity>::type,
                                       State>;
  using position_state = of_values<detail::states_once<position_state_of<Part>...>>;
  /// The states at a position that a slot has arrays of: of its values, each type once.
  using position_list = std::conditional_t<States == family_states::own,
                                           detail::distinct_states_of<position_state>,
                                           detail::distinct_states_of<position_state_of<Part>...>>;
  using sequence_state = of_values<detail::states_once<sequence_state_of<Part>...>>;
  using step_reduction =
      std::conditional_t<(std::is_same_v<step_reduction_of<Part>, no_state> && ...),
                         no_state,
                         reductions_beside<step_reduction_of<Part>...>>;

  using layer_reduction =
      std::conditional_t<(std::is_same_v<layer_reduction_of<Part>, no_state> && ...),
                         no_state,
                         reductions_beside<layer_reduction_of<Part>...>>;

  static_assert((std::is_trivially_copyable_v<Part> && ...));
  static_assert(sizeof...(Part) < 255);

  template <class P>
  static constexpr bool has = (std::is_same_v<P, Part> || ...);
  template <class P>
  static constexpr std::uint8_t index_of = [] {
    std::uint8_t at = 0;
    std::uint8_t found = 0;
    ((found = std::is_same_v<P, Part> ? at : found, ++at), ...);
    return found;
  }();

  index_t count = 0;
  index_t text_indices[capacity] = {};

  family() = default;
  template <class P>
    requires(has<P>)
  explicit family(const P& only) {
    push(only, -1);
  }

  template <class P>
  void push(const P& part, index_t text_index) {
    static_assert(has<P>);
    text_indices[count] = text_index;
    types_[count] = index_of<P>;
    if constexpr (is_large<P>) {
      ++count;
      large<P>() = part;
    } else {
      ::new (static_cast<void*>(values_[count++].bytes)) P(part);
    }
  }
  /// A part of more than 256 bytes is stored once, next to the values: at most one may be chosen.
  template <class P>
  static constexpr bool is_large = capacity > 1 && sizeof(P) > 256;
  template <class P>
  [[nodiscard]] UNMASK_HD const P& large() const {
    return static_cast<const detail::held_state<P>&>(large_).value;
  }
  template <class P>
  [[nodiscard]] P& large() {
    return static_cast<detail::held_state<P>&>(large_).value;
  }
  /// Replaces what is chosen.
  template <class P>
  void choose(const P& part, index_t text_index = -1) {
    count = 0;
    push(part, text_index);
  }

  template <class P>
  [[nodiscard]] UNMASK_HD bool holds() const {
    bool any = false;
    for (index_t i = 0; i < count; ++i) {
      any = any || types_[i] == index_of<P>;
    }
    return any;
  }

  /// True if a value before value i has its type.
  [[nodiscard]] UNMASK_HD bool repeats(index_t i) const {
    bool before = false;
    for (index_t k = 0; k < i; ++k) {
      before = before || types_[k] == types_[i];
    }
    return before;
  }

  /// The value of a type, or the default if there is none.
  template <class P>
  [[nodiscard]] UNMASK_HD P find() const {
    P found{};
    each([&found](const auto& part, index_t) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(part)>, P>) {
        found = part;
      }
    });
    return found;
  }

  /// Calls use(part, i) for each value i whose type has the trait; null: for all of them.
  UNMASK_CALLS_HOST
  template <bool part_traits::* Does = nullptr, class Use>
  UNMASK_HD void each(const Use& use) const {
    // Most policies have the first part. If there are many others, they are in a function of their
    // own, which keeps their instructions away from the first. A few are not worth it:
    // such a function forces what `use` captures into memory.
    using usual = typename detail::element_at<0, list>::type;
    constexpr std::size_t others = ((does<Part, Does> ? 1U : 0U) + ... + 0U);
    for (index_t i = 0; i < count; ++i) {
      if (types_[i] == 0) {
        if constexpr (does<usual, Does>) {
          use(value<usual>(i), i);
        }
      } else if constexpr (others <= 4) {
        one<Does>(i, use);
      } else {
        each_apart<Does>(i, use);
      }
    }
  }
  /// True if use(part) is true for one of them.
  UNMASK_CALLS_HOST
  template <bool part_traits::* Does = nullptr, class Use>
  [[nodiscard]] UNMASK_HD bool any(const Use& use) const {
    bool found = false;
    each<Does>([&](const auto& part, index_t) { found = found || use(part); });
    return found;
  }

  /// True if the type of a value has the trait.
  template <bool part_traits::* Does>
  [[nodiscard]] UNMASK_HD bool any_does() const {
    return any<Does>([](const auto&) { return true; });
  }

  /// True if a value keeps that state at positions (position_list).
  template <class State>
  [[nodiscard]] bool keeps() const {
    bool found = false;
    each([&found](const auto& part, index_t) {
      using own = position_state_of<std::remove_cvref_t<decltype(part)>>;
      found = found || std::is_same_v<own, State> ||
              (States == family_states::own && !std::is_same_v<own, no_state>);
    });
    return found;
  }
  [[nodiscard]] statistics required_now() const {
    statistics all = stat::none;
    each([&all](const auto& part, index_t) {
      all = all | std::remove_cvref_t<decltype(part)>::required;
    });
    return all;
  }
  void check(const sequence_shape& g, const model_info& m) const {
    each([&](const auto& part, index_t) { check_part(part, g, m); });
  }
  void check_attention(const model_info& m) const {
    each([&m](const auto& part, index_t) { detail::check_attention(part, m); });
  }

  /// The state of value i, whose type is P.
  template <class P, class State, class All>
  [[nodiscard]] UNMASK_HD static State& state_of([[maybe_unused]] All& states,
                                                 [[maybe_unused]] index_t i,
                                                 [[maybe_unused]] no_state& none) {
    if constexpr (std::is_same_v<State, no_state>) {
      return none;
    } else if constexpr ((States == family_states::own)) {
      return static_cast<detail::held_state<State>&>(states.of[i]).value;
    } else {
      return static_cast<detail::held_state<State>&>(states).value;
    }
  }
  template <class P>
  [[nodiscard]] UNMASK_HD static auto& reduction_of(auto& reductions) {
    return detail::get_indexed<std::size_t{index_of<P>}>(reductions);
  }

 private:
  template <class P, bool part_traits::* Does>
  static constexpr bool does = [] {
    if constexpr (Does == nullptr) {
      return true;
    } else {
      return traits_of<P>.*Does;
    }
  }();

  template <class P>
  [[nodiscard]] UNMASK_HD const P& value(index_t i) const {
    if constexpr (is_large<P>) {
      return large<P>();
    } else {
      return *reinterpret_cast<const P*>(values_[i].bytes);
    }
  }

  UNMASK_CALLS_HOST
  template <bool part_traits::* Does, class Use>
  [[gnu::noinline]] UNMASK_HD void each_apart(index_t i, const Use& use) const {
    one<Does>(i, use);
  }
  UNMASK_CALLS_HOST
  template <bool part_traits::* Does, class Use>
  UNMASK_HD void one(index_t i, const Use& use) const {
    [&]<std::size_t... K>(std::index_sequence<K...>) {
      static_cast<void>((is_the_one<Does, K, Part>(i, use) || ...));
    }(std::index_sequence_for<Part...>{});
  }
  UNMASK_CALLS_HOST
  template <bool part_traits::* Does, std::size_t K, class P, class Use>
  [[nodiscard]] UNMASK_HD bool is_the_one([[maybe_unused]] index_t i,
                                          [[maybe_unused]] const Use& use) const {
    if constexpr (K > 0 && does<P, Does>) {
      if (types_[i] == K) {
        use(value<P>(i), i);
        return true;
      }
    }
    return false;
  }

  struct alignas(Part...) storage {
    std::byte bytes[std::max({is_large<Part> ? std::size_t{1} : sizeof(Part)...})];
  };
  storage values_[capacity];
  std::uint8_t types_[capacity] = {};
  detail::states_once<std::conditional_t<is_large<Part>, Part, no_state>...> large_ = {};
};

template <class P>
concept is_family = requires { typename P::family_type; };

/// Traits of a family.
template <is_family F>
inline constexpr part_traits traits_of<F> = [] {
  part_traits t = F::traits;
  t.tracks = F::tracks;
  t.probes = F::probes;
  return t;
}();

namespace detail {

/// A part of a policy as a walk visits it: part `I` itself or, in a family, one of its values.
template <class Part, std::size_t I, class Family = void>
struct visited {
  using type = Part;
  using family_type = Family;
  static constexpr std::size_t index = I;
  static constexpr bool in_family = !std::is_void_v<Family>;
  const Part& part;
  index_t value = 0;       ///< which of the family
  index_t text_index = 0;  ///< index into the parts as written; -1 if not known
  mutable no_state none = {};
};

}  // namespace detail

}  // namespace unmask
