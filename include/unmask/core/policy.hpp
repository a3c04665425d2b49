// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/composition.hpp>
#include <unmask/core/part/composition_rules.hpp>
#include <unmask/core/part/family.hpp>
#include <unmask/core/part/part_check.hpp>
#include <unmask/core/part/traits.hpp>
#include <unmask/core/semi_autoregressive.hpp>

#include <utility>

namespace UNMASK_NAMESPACE {

namespace detail {

// Part list: the parts inside all_of, any_of and at_most, each with its own state and stages.
template <class P>
struct parts_in {
  using type = type_list<P>;
};
template <class A, class B>
struct parts_in<all_of<A, B>> {
  using type = typename joined<typename parts_in<A>::type, typename parts_in<B>::type>::type;
};
template <class A, class B>
struct parts_in<any_of<A, B>> {
  using type = typename joined<typename parts_in<A>::type, typename parts_in<B>::type>::type;
};
template <class R>
struct parts_in<at_most<R>> {
  using type = typename joined<type_list<commit_limit>, typename parts_in<R>::type>::type;
};
template <class P>
inline constexpr std::size_t part_count = parts_in<P>::type::size;

template <std::size_t I, class P>
[[nodiscard]] UNMASK_HD constexpr const auto& part(const P& p) {
  if constexpr (is_composite<P>::value) {
    constexpr std::size_t left = part_count<decltype(p.first)>;
    if constexpr (I < left) {
      return part<I>(p.first);
    } else {
      return part<I - left>(p.second);
    }
  } else {
    return p;
  }
}

template <class P>
inline constexpr bool has_stage =
    is_family<P> || ranking<P> || commit_rule<P> || logits_transform<P> || stopping<P> ||
    scheduling<P> || logits_processor<P> || step_reducing<P> || token_editing<P> || remasking<P> ||
    branching<P> || drafting<P> || beam_searching<P> || drawing<P> || renoising<P> ||
    candidate_filter<P> || truncating<P> || probing<P> || caching<P> || layer_rule<P> ||
    evicting<P> || gating<P> || block_rewriting<P>;

template <class P>
concept declares_required = requires {
  requires std::bool_constant<(static_cast<void>(statistics{P::required}), true)>::value;
};

// The parts in P; empty for a type without `required`, which the policy refuses with a sentence.
template <class P, bool Declares = declares_required<P>>
struct proper_parts_in : parts_in<P> {};
template <class P>
struct proper_parts_in<P, false> {
  using type = type_list<>;
};

// A part without functions that a step calls may have one with nearly the right name.
template <class P>
consteval void check_spelling_of_part() {
  if constexpr (__is_class(P) && !has_stage<P>) {
    check_spelling<P>();
  }
}

template <class P, class Parts>
consteval void check_composition() {
  if constexpr (choosy<P, Parts>) {
    P::template composed_with<Parts>();
  }
}

}  // namespace detail

/// Types of parts in order.
template <class... Part>
using part_list = detail::type_list<Part...>;

namespace detail {

template <class List>
struct constants_of;

/// Constants of a policy with these parts. None of them joins others.
template <class... Part>
struct constants_of<type_list<Part...>> {
  /// All parts, with those joined by && and || taken apart.
  using part_list = detail::type_list<Part...>;
  /// Number of parts, those inside all_of, any_of and at_most counted one by one.
  static constexpr std::size_t part_total = sizeof...(Part);
  template <std::size_t I>
  using part_type = typename detail::element_at<I, part_list>::type;  ///< Type of part I.

  /// Statistics that the read of a row collects. The confidence is always among them: reports
  /// contain the log-probability of each token.
  static constexpr statistics required = (Part::required | ... | stat::confidence);

  /// Combined traits of the parts.
  static constexpr composition together = composition_of<Part...>();

  /// True for a policy whose parts are chosen at run time: the traits below are then those that its
  /// parts may have, and step/active.hpp says which they have now.
  static constexpr bool varies = false;

  // By the name of each trait: true when a part has it.
#define UNMASK_HOOK(name, ...) static constexpr bool name = together.name > 0;
#define UNMASK_TRAIT UNMASK_HOOK
#include <unmask/core/part/hooks.inl>

  /// True when a part uses branches, of lookahead, drafts or a beam.
  static constexpr bool branches = together.has_branches();
  /// True when a part selects the positions that a layer computes, or excludes single positions
  /// from a pass: the engine then calls session::pass().
  static constexpr bool layered = together.is_layered();
  /// Most tokens that are tracked at one position.
  static constexpr index_t tracks = together.tracked_tokens();
  /// Most tokens that its parts probe at one position.
  static constexpr index_t probes = together.probes;
};

}  // namespace detail

/// A decoding policy: decides in each step which positions commit which tokens. A product of parts,
/// in any order.
///
/// Exactly one part ranks and exactly one expression is the commit rule; at most one part is the
/// schedule (semi_autoregressive if there is none); edits and stops may repeat and apply in written
/// order. A policy is a value: it can be copied, changed, and differ for each sequence.
template <class... Parts>
class policy
    : public detail::constants_of<
          typename detail::joined<typename detail::proper_parts_in<Parts>::type...>::type> {
  using constants = detail::constants_of<
      typename detail::joined<typename detail::proper_parts_in<Parts>::type...>::type>;

 public:
  using typename constants::part_list;
  template <std::size_t I>
  using part_type = typename constants::template part_type<I>;  ///< Type of part I.

  static_assert(sizeof...(Parts) > 0,
                "a policy needs a ranking and a commit rule, such as policy{by_confidence{}, "
                "tokens_per_step{1}}");
  static_assert(
      (__is_trivially_copyable(Parts) && ...),
      "a part must be trivially copyable: no pointers to owned memory, no virtual functions");
  static_assert((detail::declares_required<Parts> && ...),
                "a part must declare what it reads: static constexpr statistics required = ...");

  /// A policy of these parts, in any order.
  constexpr policy(const Parts&... parts)  // NOLINT(google-explicit-constructor): a one-part policy
    requires(sizeof...(Parts) > 0)
      : parts_{{parts}...} {
    if constexpr ((detail::declares_required<Parts> && ...)) {
      check();
    }
  }

  /// Part I of part_list.
  template <std::size_t I>
  [[nodiscard]] UNMASK_HD constexpr const part_type<I>& part_at() const {
    return at<I, 0>();
  }
  /// Part I as given to the constructor, where rules joined by && and || are one.
  template <std::size_t I>
  [[nodiscard]] constexpr const auto& given() const {
    return detail::get_indexed<I,
                               typename detail::element_at<I, detail::type_list<Parts...>>::type>(
        parts_);
  }

 private:
  static constexpr void check() {
    []<class... Part>(detail::type_list<Part...>) {
      static_assert(((detail::check_spelling_of_part<Part>(), true) && ...));
      static_assert(((detail::check_part_functions<Part>(), true) && ...));
    }(part_list{});
    static_assert(((detail::is_meant_to_rank<Parts> ? 1 : 0) + ... + 0) == 1,
                  "a policy needs exactly one ranking, such as by_confidence{}");
    static_assert(((detail::is_meant_to_commit<Parts> ? 1 : 0) + ... + 0) == 1,
                  "a policy needs exactly one commit rule: join several with && or ||");
    all_composition_rules::check<policy>();
    static_assert(
        (detail::has_stage<Parts> && ...),
        "a part of this policy has no function that a step calls: check the names, the arguments "
        "and the return types of score, commits, transform, process, reduce, filter, edit_token, "
        "remasks, stop, schedule");
    static_assert(((extending<Parts> || !(pacing<Parts> || renoising<Parts>)) && ...),
                  "a schedule that paces itself, or a part that decides on a canvas, must say how "
                  "many forward passes it takes in addition to one for each position: "
                  "extra_forwards(sequence_shape) -> std::int64_t");
    []<class... Part>(detail::type_list<Part...>) {
      static_assert(((detail::check_composition<Part, part_list>(), true) && ...));
    }(part_list{});
  }

  template <std::size_t I, std::size_t Top>
  [[nodiscard]] UNMASK_HD constexpr const part_type<I>& at() const {
    return find<I, Top, 0>();
  }

  template <std::size_t I, std::size_t Top, std::size_t Before>
  [[nodiscard]] UNMASK_HD constexpr const auto& find() const {
    using top = typename detail::element_at<Top, detail::type_list<Parts...>>::type;
    constexpr std::size_t count = detail::part_count<top>;
    if constexpr (I < Before + count) {
      return detail::part<I - Before>(detail::get_indexed<Top, top>(parts_));
    } else {
      return find<I, Top + 1, Before + count>();
    }
  }

  detail::pack<Parts...> parts_;
};

template <class... Parts>
policy(Parts...) -> policy<Parts...>;

namespace detail {

template <class Policy, class Indices>
struct states;
template <class Policy, std::size_t... I>
struct states<Policy, std::index_sequence<I...>> {
  using sequence = pack<sequence_state_of<typename Policy::template part_type<I>>...>;
  using step_reductions = pack<step_reduction_of<typename Policy::template part_type<I>>...>;
};

}  // namespace detail

/// State that a policy keeps for each sequence.
template <class Policy>
using sequence_states =
    typename detail::states<Policy, std::make_index_sequence<Policy::part_total>>::sequence;

/// Step reductions of a policy's parts over the candidates.
template <class Policy>
using step_reductions_of =
    typename detail::states<Policy, std::make_index_sequence<Policy::part_total>>::step_reductions;

}  // namespace unmask
