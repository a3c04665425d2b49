// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/walk.hpp>

/// Stages that the parts of a policy use with their current values. A part without the function of
/// that name uses its stage always, so that these are constants for most policies composed in C++.
/// For a policy by name they read its parts, and those of the policy of a slot (`m`) an answer
/// stored when the sequence began.
namespace UNMASK_NAMESPACE::step {

template <class Policy>
struct slot_memory;

// All stages: the name of the question, the trait of the parts that are asked, and their function.
// A part with the trait and without the function answers true.
// clang-format off
#define UNMASK_STAGES(STAGE)                                                                       \
  STAGE(transforms_now, transforms, transforms_now) /* a part transforms logits */                 \
  /* an edit of rows depends on the tokens around a position */                                    \
  STAGE(reads_sequence_now, reads_sequence, reads_sequence_now)                                    \
  STAGE(processes_now, visits_rows, processes_now) /* a part edits or probes rows after a read */  \
  STAGE(probes_now, is_probe, probes_now) /* a part reports probabilities of tokens */             \
  /* a part reads the probability of committed tokens */                                           \
  STAGE(tracks_current_now, tracks_current, tracks_current_now)                                    \
  STAGE(tracks_now, names_tokens, tracks_now) /* a part names tracked tokens */                    \
  STAGE(edits_tokens_now, rewrites, edits_tokens_now) /* a part edits or remasks committed ones */ \
  /* a part looks at committed tokens again without them */                                        \
  STAGE(reconsiders_now, reconsiders, reconsiders_now)                                             \
  STAGE(verifies_now, verifies, verifies_now) /* the schedule checks drafts */                     \
  STAGE(remasks_now, remasks, edits_tokens_now) /* committed positions may become candidates */    \
  STAGE(remasks_least_now, remasks_least, edits_tokens_now) /* remasks the least certain tokens */ \
  /* a part rewrites the scored block as a whole */                                                \
  STAGE(rewrites_blocks_now, rewrites_blocks, rewrites_blocks_now)                                 \
  STAGE(shadows_now, shadows, shadows_now) /* committed positions are read in a shadow segment */  \
  STAGE(forces_now, forces, forces_now)   /* a part names the tokens that are drawn */             \
  STAGE(filters_now, filter, filters_now) /* a part filters candidates */                          \
  STAGE(anchors_now, anchors, anchors_now) /* a part marks candidates as anchors */                \
  STAGE(costs_now, costs, costs_now) /* candidates have a cost */                                  \
  STAGE(spans_now, needs_spans, spans_now) /* candidates are ranked within their spans */          \
  STAGE(reduces_now, reduces, reduces_now) /* a part reduces over the candidates of a step */      \
  /* the ranking reads the step reduction */                                                       \
  STAGE(ranks_by_reduction_now, ranks_by_reduction, ranks_by_reduction_now)                        \
  STAGE(reviews_now, reviews, reviews_now) /* a part reduces over the commits of a step */         \
  STAGE(stops_now, stops, stops_now) /* a part ends sequences */                                   \
  /* a schedule decides itself when the sequence is complete */                                    \
  STAGE(paces_now, paces, paces_now)                                                               \
  STAGE(compares_now, compares, compares_now) /* rows are compared with those of the last step */  \
  STAGE(truncates_now, truncates, truncates_now) /* keeps the most probable tokens of a row */     \
  STAGE(looks_ahead_now, branches, branches_now) /* a part has lookahead branches */               \
  STAGE(drafts_now, drafts, branches_now) /* a part has drafts */                                  \
  STAGE(beams_now, beams, branches_now) /* a part has a beam */                                    \
  STAGE(renoises_now, renoises, renoises_now) /* a part decides on a canvas */                     \
  STAGE(caches_now, caches, caches_now) /* a cache limits the positions of a pass */               \
  STAGE(evicts_now, evicts, evicts_now) /* a cache drops keys */                                   \
  STAGE(picks_now, picks, picks_now) /* a cache excludes single positions from a pass */           \
  STAGE(skips_now, skips, skips_now) /* a layer rule selects positions */                          \
  /* a schedule finds the end of a block in its rows */                                            \
  STAGE(ends_blocks_now, ends_blocks, ends_blocks_now)
// clang-format on

/// The stages that a policy uses with its current values, and the parts that use each: bits.
struct active_parts {
#define UNMASK_STAGE(Name, Does, Function) Name,
  enum stage : std::uint32_t { UNMASK_STAGES(UNMASK_STAGE) count };
#undef UNMASK_STAGE
  static_assert(count <= 64);
  std::uint64_t used = 0;  ///< By stage: whether a part uses it.
  std::uint32_t in[count] = {};

  /// The trait of the parts that may use a stage.
#define UNMASK_STAGE(Name, Does, Function) &part_traits::Does,
  using has_trait = bool part_traits::*;
  static constexpr has_trait trait[] = {UNMASK_STAGES(UNMASK_STAGE)};
#undef UNMASK_STAGE
};

/// Asks a part whether it uses a stage.
template <active_parts::stage Stage>
struct asked;
#define UNMASK_STAGE(Name, Does, Function)                                                         \
  template <>                                                                                      \
  struct asked<active_parts::Name> {                                                               \
    template <class Part>                                                                          \
    UNMASK_HD auto operator()(const Part& part) const -> decltype(part.Function()) {               \
      return part.Function();                                                                      \
    }                                                                                              \
  };
UNMASK_STAGES(UNMASK_STAGE)
#undef UNMASK_STAGE

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

// The same by the name of the stage. `p`: a policy, or its slot.
#define UNMASK_STAGE(Name, Does, Function)                                                         \
  [[nodiscard]] UNMASK_HD bool Name(const auto& p) {                                               \
    return uses<active_parts::Name>(p);                                                            \
  }
UNMASK_STAGES(UNMASK_STAGE)
#undef UNMASK_STAGE

/// The parts that a policy uses in each stage.
template <class Policy>
[[nodiscard]] UNMASK_HD active_parts active_parts_of(const Policy& p) {
  static_assert(Policy::part_total <= 32);
  active_parts all;
#define UNMASK_STAGE(Name, Does, Function)                                                         \
  detail::for_each_part<Policy, &part_traits::Does>([&](auto at) {                                 \
    constexpr std::size_t I = decltype(at)::value;                                                 \
    const bool is_in = detail::is_active<&part_traits::Does>(p.template part_at<I>(),              \
                                                             asked<active_parts::Name>{});         \
    all.in[active_parts::Name] |= (is_in ? 1U : 0U) << I;                                          \
    all.used |= (is_in ? std::uint64_t{1} : 0) << active_parts::Name;                              \
  });
  UNMASK_STAGES(UNMASK_STAGE)
#undef UNMASK_STAGE
  return all;
}
#undef UNMASK_STAGES

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

/// True if a part has branches, of lookahead, drafts or a beam. `p`: a policy, or its slot.
[[nodiscard]] UNMASK_HD bool branches_now(const auto& p) {
  return looks_ahead_now(p) || drafts_now(p) || beams_now(p);
}

/// True if layers compute some of the positions only.
[[nodiscard]] UNMASK_HD bool layered_now(const auto& p) {
  return picks_now(p) || skips_now(p);
}

}  // namespace unmask::step
