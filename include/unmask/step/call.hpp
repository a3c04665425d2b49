// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/walk.hpp>
#include <unmask/stats/row.hpp>
#include <unmask/step/slot.hpp>

/// Calls the functions of a policy's parts, each with the candidate narrowed to the statistics that
/// the part declared and with its own state: a part that reads more does not compile.
namespace UNMASK_NAMESPACE::step {

/// Context of leaf I for one position (`cell`) of one sequence.
template <std::size_t I, class Policy>
[[nodiscard]] UNMASK_HD scope<typename Policy::template leaf_type<I>>
scope_of(const slot_memory<Policy>& m, index_t cell, const step_info& at) {
  using leaf = typename Policy::template leaf_type<I>;
  return {detail::get_indexed<I, position_state_of<leaf>>(m.cells[cell]),
          detail::get_indexed<I, sequence_state_of<leaf>>(*m.sequence),
          detail::get_indexed<I, tally_of<leaf>>(*m.tallies),
          at};
}

namespace call {

template <class Part>
[[nodiscard]] UNMASK_HD float score(const Part& p, const auto& c, auto& own) {
  if constexpr (requires { p.score(c, own); }) {
    return p.score(c, own);
  } else {
    return p.score(c);
  }
}

template <class Part>
[[nodiscard]] UNMASK_HD bool
admits(const Part& p, const auto& c, const auto& of_all, auto& own) {
  const detail::standing_for<Part>& s = of_all;
  if constexpr (requires { p.admits(c, s, own); }) {
    return p.admits(c, s, own);
  } else {
    return p.admits(c, s);
  }
}

}  // namespace call

/// Rank information of a candidate that the policy's commit rule needs.
template <class Policy>
using standing_of =
    std::conditional_t<Policy::anchors, standing_by_anchors, standing_in_run>;

/// Score of a candidate by the policy's ranking.
template <class Policy>
[[nodiscard]] UNMASK_HD float
score(const slot_memory<Policy>& m, const candidate<Policy::required>& c, const step_info& at) {
  constexpr std::size_t I = detail::part_that<Policy, &part_traits::ranks>;
  using leaf = typename Policy::template leaf_type<I>;
  auto own = scope_of<I>(m, m.cell_of(c.position), at);
  const auto narrow = c.template as<leaf::required>();
  return call::score(m.policy->template part_at<I>(), narrow, own);
}

namespace detail_admission {

// Evaluates the commit rule expression E whose first leaf has index I.
template <std::size_t I, class E>
struct expression {
  template <class Policy>
  [[nodiscard]] UNMASK_HD static bool admits(const slot_memory<Policy>& m,
                                             const candidate<Policy::required>& c,
                                             const standing_of<Policy>& s,
                                             const step_info& at) {
    auto own = scope_of<I>(m, m.cell_of(c.position), at);
    const auto narrow = c.template as<E::required>();
    return call::admits(m.policy->template part_at<I>(), narrow, s, own);
  }
};

template <std::size_t I, class A, class B>
struct expression<I, all_of<A, B>> {
  template <class Policy>
  [[nodiscard]] UNMASK_HD static bool admits(const slot_memory<Policy>& m,
                                             const candidate<Policy::required>& c,
                                             const standing_of<Policy>& s,
                                             const step_info& at) {
    const bool first = expression<I, A>::admits(m, c, s, at);
    const bool second = expression<I + detail::leaf_count<A>, B>::admits(m, c, s, at);
    return first && second;
  }
};

template <std::size_t I, class A, class B>
struct expression<I, any_of<A, B>> {
  template <class Policy>
  [[nodiscard]] UNMASK_HD static bool admits(const slot_memory<Policy>& m,
                                             const candidate<Policy::required>& c,
                                             const standing_of<Policy>& s,
                                             const step_info& at) {
    const bool first = expression<I, A>::admits(m, c, s, at);
    const bool second = expression<I + detail::leaf_count<A>, B>::admits(m, c, s, at);
    return first || second;
  }
};

// Finds the commit rule among the top-level parts, and the index of its first leaf.
template <std::size_t I, class... Parts>
struct find;
template <std::size_t I, class Head, class... Tail>
struct find<I, Head, Tail...> : std::conditional_t<admission<Head>,
                                                   std::type_identity<expression<I, Head>>,
                                                   find<I + detail::leaf_count<Head>, Tail...>> {};
template <std::size_t I>
struct find<I> {};

template <class Policy>
struct of;
template <class... Parts>
struct of<policy<Parts...>> : find<0, Parts...> {};

}  // namespace detail_admission

/// True if the policy's commit rule commits a candidate with that rank information.
template <class Policy>
[[nodiscard]] UNMASK_HD bool admits(const slot_memory<Policy>& m,
                                    const candidate<Policy::required>& c,
                                    const standing_of<Policy>& s,
                                    const step_info& at) {
  return detail_admission::of<Policy>::type::admits(m, c, s, at);
}

/// Number of parts of the policy in each stage.
template <class Policy>
struct stages {
  template <bool part_traits::*Does>
  static constexpr auto number_of = static_cast<int>(detail::parts_that<Policy, Does>::count);
  static constexpr int costs = number_of<&part_traits::costs>;
  static constexpr int schedules = number_of<&part_traits::schedules>;
  static constexpr int paces = number_of<&part_traits::paces>;
  static constexpr int replans = number_of<&part_traits::replans>;
  static constexpr int edits = number_of<&part_traits::edits>;
  static constexpr int revisions = number_of<&part_traits::revises>;
  static constexpr int delays = number_of<&part_traits::delays>;
  static constexpr int reviews = number_of<&part_traits::reviews>;
  static constexpr int restricts = number_of<&part_traits::restricts>;
};

/// Cost of a candidate by the policy's commit rule.
template <class Policy>
[[nodiscard]] UNMASK_HD float cost(const slot_memory<Policy>& m,
                                   const candidate<Policy::required>& c) {
  static_assert(stages<Policy>::costs == 1,
                "an admission may contain one part with a cost, not two");
  constexpr std::size_t I = detail::part_that<Policy, &part_traits::costs>;
  const auto narrow = c.template as<Policy::template leaf_type<I>::required>();
  return m.policy->template part_at<I>().cost(narrow);
}

/// Calls the stopping parts in written order; the first one that ends the sequence decides.
template <class Policy>
[[nodiscard]] UNMASK_HD ending stop(const slot_memory<Policy>& m, const step_info& at) {
  ending e = ending::running;
  static_cast<void>(detail::any_part<Policy, &part_traits::stops>([&](auto part) {
    constexpr std::size_t I = decltype(part)::value;
    auto own = scope_of<I>(m, 0, at);
    e = m.policy->template part_at<I>().stop(m.state->view, own);
    return e != ending::running;
  }));
  return e;
}

/// Calls the policy's schedule for the plan of the next step.
template <class Policy>
UNMASK_HD void schedule(const slot_memory<Policy>& m, plan& next, const step_info& at) {
  if constexpr (stages<Policy>::schedules > 0) {
    constexpr std::size_t I = detail::part_that<Policy, &part_traits::schedules>;
    auto own = scope_of<I>(m, 0, at);
    m.policy->template part_at<I>().schedule(m.state->view, next, own);
  } else {
    no_state none;
    scope<sequential_blocks> own{none, m.state->fallback_schedule, none, at};
    sequential_blocks{}.schedule(m.state->view, next, own);
  }
}

/// Changes the anchor's plan into that of a branch whose token is in place; with `keeps` the
/// schedule's state is updated. Returns false if the schedule does not plan branches separately.
template <class Policy>
UNMASK_HD bool replan([[maybe_unused]] const slot_memory<Policy>& m,
                      [[maybe_unused]] plan& next,
                      [[maybe_unused]] const step_info& at,
                      [[maybe_unused]] bool keeps) {
  constexpr std::size_t I = detail::part_that<Policy, &part_traits::replans>;
  if constexpr (I < Policy::leaf_total) {
    auto own = scope_of<I>(m, 0, at);
    const sequence_state_of<typename Policy::template leaf_type<I>> before = own.sequence;
    m.policy->template part_at<I>().replan(m.state->view, next, own);
    if (!keeps) {
      own.sequence = before;
    }
  }
  return I < Policy::leaf_total;
}

/// Collects the tracked tokens of all parts for one position, masked or committed.
template <mark What, class Policy>
UNMASK_HD void
watch(const slot_memory<Policy>& m, watch_list& list, index_t cell, const step_info& at) {
  detail::for_each_part<Policy, &part_traits::names_tokens>([&](auto part) {
    constexpr std::size_t I = decltype(part)::value;
    if constexpr (What == mark::open || revising_settled<typename Policy::template leaf_type<I>>) {
      auto own = scope_of<I>(m, cell, at);
      m.policy->template part_at<I>().watch(list, own);
    }
  });
}

/// Runs the logits processors on one row, of a masked or committed position, in written order, and
/// the probes on rows of masked positions.
template <mark What, class Policy>
UNMASK_HD void revise(const slot_memory<Policy>& m,
                      revisable_row<Policy::required>& row,
                      index_t cell,
                      const step_info& at) {
  detail::for_each_part<Policy, &part_traits::turns>([&](auto turn) {
    constexpr std::size_t I = decltype(turn)::value;
    using leaf = typename Policy::template leaf_type<I>;
    const leaf& part = m.policy->template part_at<I>();
    if constexpr (inquiring<leaf> && What == mark::open) {
      auto own = scope_of<I>(m, cell, at);
      narrowed_row<leaf::required, Policy::required, detail::says_watches<leaf>> narrow{row};
      const index_t i = at.position - m.status->next.score.first;
      token_probability* const out =
          m.asked + i * Policy::inquiries + detail::inquiries_before<Policy, I>;
      const index_t count = part.inquire(narrow, own, out);
      for (index_t k = 0; k < count; ++k) {
        out[k].slot = m.slot;
        out[k].position = at.position;
        out[k].step = at.step;
      }
    }
    if constexpr (revision<leaf> && (What == mark::open || revising_settled<leaf>)) {
      auto own = scope_of<I>(m, cell, at);
      narrowed_row<leaf::required, Policy::required, detail::says_watches<leaf>> narrow{row};
      part.revise(narrow, own);
    }
  });
}

/// True if every part allows a token at a position.
template <class Policy>
[[nodiscard]] UNMASK_HD bool allows(const Policy& p, token_id token, const step_info& at) {
  return !detail::any_part<Policy, &part_traits::restricts>([&](auto part) {
    return !p.template part_at<decltype(part)::value>().allows(token, at);
  });
}

/// True if some part may delay candidates.
template <class Policy>
inline constexpr bool delays_any = stages<Policy>::delays > 0;

/// The strictest result of the parts' delays() for a candidate between these neighbours.
template <class Policy>
[[nodiscard]] UNMASK_HD delay delay_between(const slot_memory<Policy>& m,
                                            const candidate<Policy::required>& c,
                                            const neighbours<Policy::required>& beside,
                                            const step_info& at) {
  delay strictest = delay::none;
  detail::for_each_part<Policy, &part_traits::delays>([&](auto part) {
    constexpr std::size_t I = decltype(part)::value;
    using leaf = typename Policy::template leaf_type<I>;
    constexpr statistics seen = leaf::required;
    const leaf& p = m.policy->template part_at<I>();
    auto own = scope_of<I>(m, m.cell_of(c.position), at);
    const auto narrow = c.template as<seen>();
    delay wanted = delay::none;
    if constexpr (detail::delaying_alone<leaf>) {
      wanted = p.delays(narrow, own);
    } else {
      const neighbours<seen> near{beside.left.template as<seen>(),
                                  beside.right.template as<seen>()};
      wanted = p.delays(narrow, near, own);
    }
    strictest = wanted > strictest ? wanted : strictest;
  });
  return strictest;
}

/// The lookahead part.
template <class Policy>
[[nodiscard]] UNMASK_HD const auto& lookahead_of(const slot_memory<Policy>& m) {
  return m.policy->template part_at<detail::part_that<Policy, &part_traits::branches>>();
}

/// Temperature of the drawing part; 1 without one.
template <class Policy>
[[nodiscard]] UNMASK_HD float draw_temperature([[maybe_unused]] const Policy& p) {
  constexpr std::size_t I = detail::part_that<Policy, &part_traits::draws>;
  if constexpr (I < Policy::leaf_total) {
    return p.template part_at<I>().draw_temperature();
  } else {
    return 1.0F;
  }
}

/// Result of revisit() for a committed position: that of the first part that does not keep it.
template <class Policy>
[[nodiscard]] UNMASK_HD verdict revisit(const slot_memory<Policy>& m,
                                        const candidate<Policy::required>& c,
                                        const step_info& at) {
  verdict decided = verdict::keep;
  static_cast<void>(detail::any_part<Policy, &part_traits::revisits>([&](auto part) {
    constexpr std::size_t I = decltype(part)::value;
    auto own = scope_of<I>(m, m.cell_of(c.position), at);
    const auto narrow = c.template as<Policy::template leaf_type<I>::required>();
    const verdict v = m.policy->template part_at<I>().revisit(narrow, own);
    const bool decides = v == verdict::replace || (v == verdict::reopen && at.may_reopen);
    decided = decides ? v : verdict::keep;
    return decides;
  }));
  return decided;
}

/// Calls the renoising part for the next token of a position that is not committed or, with `last`,
/// for its final token.
template <class Policy>
[[nodiscard]] UNMASK_HD token_id
renoise(const slot_memory<Policy>& m, index_t position, const step_info& at, bool last) {
  constexpr std::size_t I = detail::part_that<Policy, &part_traits::paints>;
  auto own = scope_of<I>(m, m.cell_of(position), at);
  const auto& part = m.policy->template part_at<I>();
  return last ? part.conclude(own) : part.refill(position, own);
}

}  // namespace unmask::step
