// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/walk.hpp>

/// Hooks that the parts of a policy use with their current values (core/part/hooks.inl). A hook is
/// in use if its part has no function that answers the question: these are constants for most
/// policies composed in C++.
/// For a policy by name they read its parts, and those of the policy of a slot (`m`) an answer
/// stored when the sequence began.
namespace UNMASK_NAMESPACE::step {

template <class Policy>
struct slot_memory;

/// The stages that a policy uses with its current values, and the parts that use each: bits.
struct active_parts {
  enum stage : std::uint32_t {
#define UNMASK_HOOK(name, ...) name##_now,
#include <unmask/core/part/hooks.inl>
    count
  };
  static_assert(count <= 64);
  std::uint64_t used = 0;  ///< By stage: whether a part uses it.
  std::uint32_t in[count] = {};

  /// The trait of the parts that may use a stage.
  using has_trait = bool part_traits::*;
  static constexpr has_trait trait[] = {
#define UNMASK_HOOK(name, ...) &part_traits::name,
#include <unmask/core/part/hooks.inl>
  };
};

/// Asks a part whether it uses a stage.
template <active_parts::stage Stage>
struct asked;
#define UNMASK_HOOK(name, has, question, ...)                                                      \
  template <>                                                                                      \
  struct asked<active_parts::name##_now> {                                                         \
    template <class Part>                                                                          \
    UNMASK_HD auto operator()(const Part& part) const -> decltype(part.question()) {               \
      return part.question();                                                                      \
    }                                                                                              \
  };
#include <unmask/core/part/hooks.inl>

/// True if a policy, or that of a slot, uses a stage.
template <active_parts::stage Stage, class Policy>
[[nodiscard]] UNMASK_HD bool uses([[maybe_unused]] const Policy& p) {
  if constexpr (detail::has_part<Policy, active_parts::trait[Stage]>) {
    return detail::any_part_now<Policy, active_parts::trait[Stage]>(p, asked<Stage>{});
  } else {
    return false;
  }
}
template <active_parts::stage Stage, class Policy>
[[nodiscard]] UNMASK_HD bool uses([[maybe_unused]] const slot_memory<Policy>& m) {
  if constexpr (Policy::varies) {
    return ((m.state->active.used >> Stage) & 1U) != 0;
  } else if constexpr (detail::has_part<Policy, active_parts::trait[Stage]>) {
    return uses<Stage>(*m.policy);
  } else {
    return false;
  }
}

// uses<Stage>() by the name of the stage. `p`: a policy, or its slot.
#define UNMASK_HOOK(name, ...)                                                                     \
  [[nodiscard]] UNMASK_HD bool name##_now(const auto& p) {                                         \
    return uses<active_parts::name##_now>(p);                                                      \
  }
#include <unmask/core/part/hooks.inl>

/// The parts that a policy uses in each stage.
template <class Policy>
[[nodiscard]] UNMASK_HD active_parts active_parts_of(const Policy& p) {
  static_assert(Policy::part_total <= 32);
  active_parts all;
#define UNMASK_HOOK(name, ...)                                                                     \
  detail::for_each_part<Policy, &part_traits::name>([&](auto at) {                                 \
    constexpr std::size_t I = decltype(at)::value;                                                 \
    const bool is_in = detail::is_active<&part_traits::name>(p.template part_at<I>(),              \
                                                             asked<active_parts::name##_now>{});   \
    all.in[active_parts::name##_now] |= (is_in ? 1U : 0U) << I;                                    \
    all.used |= (is_in ? std::uint64_t{1} : 0) << active_parts::name##_now;                        \
  });
#include <unmask/core/part/hooks.inl>
  return all;
}

/// Calls use(visited) for each part that uses a stage, in written order.
template <active_parts::stage Stage, class Policy, class Use>
UNMASK_HD void for_each_active_part([[maybe_unused]] const slot_memory<Policy>& m, const Use& use) {
  detail::for_each_part<Policy, active_parts::trait[Stage]>([&](auto at) {
    if constexpr (Policy::varies) {
      if (((m.state->active.in[Stage] >> decltype(at)::value) & 1U) == 0) {
        return;
      }
    }
    detail::visit_part<decltype(at)::value, active_parts::trait[Stage]>(*m.policy, use);
  });
}

namespace detail_active {

template <class Body, class... Argument>
[[gnu::noinline]] UNMASK_HD auto call_apart(const Body& body, const Argument&... argument) {
  return body(argument...);
}

}  // namespace detail_active

/// body(argument...), which few policies need. For a policy by name it is called as a function of
/// its own, so that its instructions do not lie between those that every step executes: a kernel
/// that decides executes each once, and would wait for them to be fetched.
template <class Policy, class Body, class... Argument>
UNMASK_HD auto apart(const Body& body, const Argument&... argument) {
  if constexpr (Policy::varies) {
    return detail_active::call_apart(body, argument...);
  } else {
    return body(argument...);
  }
}

/// Calls body(m), apart, if the policy of the slot uses a stage that few policies have. `body` is a
/// generic lambda: only policies with a part of that stage compile it.
template <active_parts::stage Stage, class Policy, class Body>
UNMASK_HD void when([[maybe_unused]] const slot_memory<Policy>& m,
                    [[maybe_unused]] const Body& body) {
  if constexpr (detail::has_part<Policy, active_parts::trait[Stage]>) {
    if (uses<Stage>(m)) {
      apart<Policy>(body, m);
    }
  }
}

/// The parts whose policies have passes of a kind.
template <pass_kind Kind>
inline constexpr active_parts::has_trait parts_of_pass =
    Kind == pass_kind::canvas      ? &part_traits::renoises
    : Kind == pass_kind::rewriting ? &part_traits::rewrites_blocks
    : Kind == pass_kind::hiding    ? &part_traits::reconsiders
    : Kind == pass_kind::beam      ? &part_traits::beams
                                   : &part_traits::verifies;

/// The kind of a pass that a schedule plans.
[[nodiscard]] UNMASK_HD pass_kind planned_kind(const auto& m) {
  return renoises_now(m)          ? pass_kind::canvas
         : rewrites_blocks_now(m) ? pass_kind::rewriting
                                  : pass_kind::candidates;
}

/// True if the step decides a pass of a kind other than `candidates`; a constant for a policy that
/// has none.
template <pass_kind Kind, class Policy>
[[nodiscard]] UNMASK_HD bool is_pass([[maybe_unused]] const slot_memory<Policy>& m) {
  if constexpr (detail::has_part<Policy, parts_of_pass<Kind>>) {
    return m.status->next.kind == Kind;
  } else {
    return false;
  }
}

/// Calls body(m), apart, in a pass of a kind; returns whether it is one. `body` as for when().
template <pass_kind Kind, class Policy, class Body>
UNMASK_HD bool in_pass([[maybe_unused]] const slot_memory<Policy>& m,
                       [[maybe_unused]] const Body& body) {
  if constexpr (detail::has_part<Policy, parts_of_pass<Kind>>) {
    if (is_pass<Kind>(m)) {
      apart<Policy>(body, m);
      return true;
    }
  }
  return false;
}

/// True if a part has branches, of lookahead, drafts or a beam. `p`: a policy, or its slot.
[[nodiscard]] UNMASK_HD bool branches_now(const auto& p) {
  return looks_ahead_now(p) || drafts_now(p) || beams_now(p);
}

/// True if layers compute some of the positions only.
[[nodiscard]] UNMASK_HD bool layered_now(const auto& p) {
  return picks_now(p) || skips_now(p);
}

}  // namespace unmask::step
