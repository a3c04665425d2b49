// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/policy.hpp>

#include <cstddef>
#include <new>
#include <type_traits>

/// Building blocks of the parts whose rule is selected at run time (any_ranking, any_commit_rule
/// and so on). A policy of such parts is one type for many compositions, and decides exactly as the
/// policy composed of the parts themselves.
namespace UNMASK_NAMESPACE {

/// A value of one of several types, as std::variant, but trivially copyable and readable in a
/// kernel. Default: the first type.
template <class... T>
class choice_of {
  template <class Head, class...>
  struct first_of {
    using type = Head;
  };
  template <class Use>
  using answer_of = std::invoke_result_t<const Use&, const typename first_of<T...>::type&>;

 public:
  static_assert((std::is_trivially_copyable_v<T> && ...));

  template <class V>
  static constexpr bool has = (std::is_same_v<V, T> || ...);
  /// True if an alternative has a trait.
  template <bool part_traits::* Trait>
  static constexpr bool may = ((traits_of<T>.*Trait) || ...);

  /// The alternatives.
  using list = detail::type_list<T...>;
  /// Statistics that any alternative may read, and their states side by side: a part with a choice
  /// declares those that it needs, and visit_with() gives each alternative its own state.
  static constexpr statistics required = (T::required | ... | stat::none);
  using position_states = detail::pack<position_state_of<T>...>;
  using sequence_states = detail::pack<sequence_state_of<T>...>;
  using step_reductions = reductions_beside<step_reduction_of<T>...>;
  using layer_reductions = reductions_beside<layer_reduction_of<T>...>;

  /// The state of alternative V among `states`.
  template <class V>
  [[nodiscard]] UNMASK_HD static auto& in(auto& states) {
    return detail::get_indexed<std::size_t{index_of<V>()}>(states);
  }

  choice_of()
      : choice_of(typename first_of<T...>::type{}) {}
  template <class V>
  choice_of(const V& value)  // NOLINT(google-explicit-constructor): as std::variant
    requires(has<V>) {
    ::new (static_cast<void*>(bytes_)) V(value);
    index_ = index_of<V>();
  }

  /// The default of the alternative with that index. Host only.
  [[nodiscard]] static choice_of at(std::size_t index) {
    choice_of found;
    std::size_t i = 0;
    ((i++ == index ? static_cast<void>(found = choice_of(T{})) : void()), ...);
    return found;
  }

  template <class V>
  [[nodiscard]] UNMASK_HD bool holds() const {
    return index_ == index_of<V>();
  }

  /// True if the value's type is that of another one.
  [[nodiscard]] UNMASK_HD bool is_like(const choice_of& other) const {
    return index_ == other.index_;
  }

  /// True if the value's type has a trait: does<&part_traits::reduces>().
  template <bool part_traits::* Trait>
  [[nodiscard]] UNMASK_HD bool does() const {
    constexpr std::uint64_t types = types_that<Trait>(std::index_sequence_for<T...>{});
    return ((types >> index_) & 1U) != 0;
  }

  /// The statistics that the value reads.
  [[nodiscard]] statistics required_now() const {
    constexpr statistics all[] = {T::required...};
    return all[index_];
  }

  /// Calls use(value) with the value in its own type; the result type is the same for all of them.
  template <class Use>
  UNMASK_HD answer_of<Use> visit(const Use& use) const {
    return visit_from<0, T...>(use);
  }
  /// Calls use(value, its own context), where `context` has the states of all alternatives or none.
  template <class Own, class Use>
  UNMASK_HD auto visit_with(Own& context, const Use& use) const {
    const auto with_own = [&context, &use](const auto& value) {
      using part = std::remove_cvref_t<decltype(value)>;
      no_state none;
      part_context<part> inner{
          state_in<part, position_state_of<part>>(context.state, none),
          state_in<part, sequence_state_of<part>>(context.sequence, none),
          state_in<part, step_reduction_of<part>>(context.step_reduction, none),
          context.at};
      return use(value, inner);
    };
    using usual = typename first_of<T...>::type;
    return index_ == 0 ? with_own(*reinterpret_cast<const usual*>(bytes_)) : visit_apart(with_own);
  }
  /// The step reduction of the value for a candidate, with empty ones of the other alternatives;
  /// `context` as for visit_with().
  UNMASK_HD step_reductions reduce_with(auto& context, const auto& candidate) const {
    return visit_with(context, [&candidate](const auto& value, auto& inner) {
      using part = std::remove_cvref_t<decltype(value)>;
      step_reductions sum{};
      if constexpr (step_reducing<part>) {
        in<part>(sum) = value.reduce(candidate, inner);
      }
      return sum;
    });
  }
  /// Calls use(value), for functions that run on the host only.
  template <class Use>
  answer_of<Use> visit_on_host(const Use& use) const {
    return visit_on_host_from<0, T...>(use);
  }

 private:
  template <class V, class State, class States>
  [[nodiscard]] UNMASK_HD static auto& state_in([[maybe_unused]] States& states,
                                                [[maybe_unused]] no_state& none) {
    if constexpr (std::is_same_v<State, no_state>) {
      return none;
    } else {
      return in<V>(states);
    }
  }

  template <class V>
  [[nodiscard]] UNMASK_HD static constexpr std::uint8_t index_of() {
    std::uint8_t at = 0;
    std::uint8_t found = 0;
    ((found = std::is_same_v<V, T> ? at : found, ++at), ...);
    return found;
  }

  // The types that have a trait: bits.
  template <bool part_traits::* Trait, std::size_t... I>
  [[nodiscard]] UNMASK_HD static constexpr std::uint64_t types_that(std::index_sequence<I...>) {
    static_assert(sizeof...(I) <= 64, "a stage has at most 64 parts by name, own ones included");
    return ((std::uint64_t{traits_of<T>.*Trait} << I) | ... | 0U);
  }

  // A function of its own: its instructions do not lie between those of the first type, which most
  // policies have.
  template <class Use>
  [[gnu::noinline]] UNMASK_HD answer_of<Use> visit_apart(const Use& use) const {
    return visit(use);
  }

  template <std::uint8_t I, class Head, class... Tail, class Use>
  UNMASK_HD answer_of<Use> visit_from(const Use& use) const {
    if constexpr (sizeof...(Tail) == 0) {
      return use(*reinterpret_cast<const Head*>(bytes_));
    } else {
      if (index_ == I) {
        return use(*reinterpret_cast<const Head*>(bytes_));
      }
      return visit_from<I + 1, Tail...>(use);
    }
  }

  template <std::uint8_t I, class Head, class... Tail, class Use>
  answer_of<Use> visit_on_host_from(const Use& use) const {
    if constexpr (sizeof...(Tail) == 0) {
      return use(*reinterpret_cast<const Head*>(bytes_));
    } else {
      if (index_ == I) {
        return use(*reinterpret_cast<const Head*>(bytes_));
      }
      return visit_on_host_from<I + 1, Tail...>(use);
    }
  }

  [[nodiscard]] static constexpr std::size_t largest() {
    std::size_t most = 0;
    ((most = sizeof(T) > most ? sizeof(T) : most), ...);
    return most;
  }

  alignas(T...) std::byte bytes_[largest()];
  std::uint8_t index_ = 0;
};

/// Up to `Capacity` values of a choice in written order, with their places in the text.
template <class Choice, index_t Capacity>
struct choice_list {
  static constexpr index_t capacity = Capacity;
  using rule = Choice;

  rule rules[Capacity];
  index_t text_indices[Capacity] = {};
  index_t count = 0;

  static constexpr statistics required = rule::required;

  void push(const rule& value, index_t index) {
    text_indices[count] = index;
    rules[count++] = value;
  }
  /// True if a value is a `Part`.
  template <class Part>
  [[nodiscard]] UNMASK_HD bool holds() const {
    bool any = false;
    for (index_t i = 0; i < count; ++i) {
      any = any || rules[i].template holds<Part>();
    }
    return any;
  }
  /// True if the type of a value has a trait.
  template <bool part_traits::* Trait>
  [[nodiscard]] UNMASK_HD bool any_does() const {
    bool any = false;
    for (index_t i = 0; i < count; ++i) {
      any = any || rules[i].template does<Trait>();
    }
    return any;
  }
  /// The statistics that the values read.
  [[nodiscard]] statistics required_now() const {
    statistics all = stat::none;
    for (index_t i = 0; i < count; ++i) {
      all = all | rules[i].required_now();
    }
    return all;
  }
  void check(const sequence_shape& g, const model_info& m) const {
    for (index_t i = 0; i < count; ++i) {
      rules[i].visit_on_host([&](const auto& r) { check_part(r, g, m); });
    }
  }
};

}  // namespace unmask
