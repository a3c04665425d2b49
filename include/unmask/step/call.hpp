// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/stats/row.hpp>
#include <unmask/step/slot.hpp>

/// Calls the functions of a policy's parts, each with the candidate narrowed to the statistics that
/// the part declared and with its own state: a part that reads more does not compile.
namespace UNMASK_NAMESPACE::step {

/// The scope of leaf I for one position (`cell`) of one sequence.
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
admits(const Part& p, const auto& c, const standing_in_run& of_all, auto& own) {
  const detail::standing_for<Part>& s = of_all;
  if constexpr (requires { p.admits(c, s, own); }) {
    return p.admits(c, s, own);
  } else {
    return p.admits(c, s);
  }
}

}  // namespace call

/// The score that the policy's ranking gives a candidate.
template <std::size_t I = 0, class Policy>
[[nodiscard]] UNMASK_HD float
score(const slot_memory<Policy>& m, const candidate<Policy::required>& c, const step_info& at) {
  using leaf = typename Policy::template leaf_type<I>;
  if constexpr (ranking<leaf>) {
    auto own = scope_of<I>(m, m.cell_of(c.position), at);
    const auto narrow = c.template as<leaf::required>();
    return call::score(m.policy->template part_at<I>(), narrow, own);
  } else {
    return score<I + 1>(m, c, at);
  }
}

namespace detail_admission {

// Evaluates the admission expression E whose first leaf has index I.
template <std::size_t I, class E>
struct expression {
  template <class Policy>
  [[nodiscard]] UNMASK_HD static bool admits(const slot_memory<Policy>& m,
                                             const candidate<Policy::required>& c,
                                             const standing_in_run& s,
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
                                             const standing_in_run& s,
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
                                             const standing_in_run& s,
                                             const step_info& at) {
    const bool first = expression<I, A>::admits(m, c, s, at);
    const bool second = expression<I + detail::leaf_count<A>, B>::admits(m, c, s, at);
    return first || second;
  }
};

// The admission among the top-level parts and the index of its first leaf.
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

/// True when the policy's admission admits a candidate of that standing.
template <class Policy>
[[nodiscard]] UNMASK_HD bool admits(const slot_memory<Policy>& m,
                                    const candidate<Policy::required>& c,
                                    const standing_in_run& s,
                                    const step_info& at) {
  return detail_admission::of<Policy>::type::admits(m, c, s, at);
}

namespace detail_stage {

template <class Leaf>
inline constexpr bool has_cost = detail::leaf_admission<Leaf>&& detail::costing<Leaf>;

// How many leaves of a list satisfy what.
template <class List>
struct count;
template <class... Leaf>
struct count<detail::type_list<Leaf...>> {
  static constexpr int costs = (int{has_cost<Leaf>} + ... + 0);
  static constexpr int schedules = (int{scheduling<Leaf>} + ... + 0);
  static constexpr int paces = (int{pacing<Leaf>} + ... + 0);
  static constexpr int replans = (int{replanning<Leaf>} + ... + 0);
  static constexpr int edits = (int{logit_edit<Leaf>} + ... + 0);
  static constexpr int revisions = (int{revision<Leaf>} + ... + 0);
  static constexpr int delays = (int{delaying<Leaf>} + ... + 0);
  static constexpr int restricts = (int{restricting<Leaf>} + ... + 0);
};

}  // namespace detail_stage

/// How many parts of the policy take part in a stage.
template <class Policy>
using stages = detail_stage::count<typename Policy::leaf_list>;

/// The cost that the policy's admission puts on a candidate.
template <std::size_t I = 0, class Policy>
[[nodiscard]] UNMASK_HD float cost(const slot_memory<Policy>& m,
                                   const candidate<Policy::required>& c) {
  static_assert(stages<Policy>::costs == 1,
                "an admission may contain one part with a cost, not two");
  using leaf = typename Policy::template leaf_type<I>;
  if constexpr (detail_stage::has_cost<leaf>) {
    const auto narrow = c.template as<leaf::required>();
    return m.policy->template part_at<I>().cost(narrow);
  } else {
    return cost<I + 1>(m, c);
  }
}

/// Asks the stopping parts in written order; the first that ends the sequence decides.
template <std::size_t I = 0, class Policy>
[[nodiscard]] UNMASK_HD ending stop(const slot_memory<Policy>& m, const step_info& at) {
  if constexpr (I == Policy::leaf_total) {
    return ending::running;
  } else {
    using leaf = typename Policy::template leaf_type<I>;
    if constexpr (stopping<leaf>) {
      auto own = scope_of<I>(m, 0, at);
      const ending e = m.policy->template part_at<I>().stop(m.state->view, own);
      if (e != ending::running) {
        return e;
      }
    }
    return stop<I + 1>(m, at);
  }
}

namespace call {

template <std::size_t I, class Policy>
UNMASK_HD void schedule(const slot_memory<Policy>& m, plan& next, const step_info& at) {
  static_assert(I < Policy::leaf_total);
  using leaf = typename Policy::template leaf_type<I>;
  if constexpr (scheduling<leaf>) {
    auto own = scope_of<I>(m, 0, at);
    m.policy->template part_at<I>().schedule(m.state->view, next, own);
  } else {
    schedule<I + 1>(m, next, at);
  }
}

}  // namespace call

/// Lets the policy's schedule choose what the next step is about.
template <class Policy>
UNMASK_HD void schedule(const slot_memory<Policy>& m, plan& next, const step_info& at) {
  if constexpr (stages<Policy>::schedules > 0) {
    call::schedule<0>(m, next, at);
  } else {
    no_state none;
    scope<sequential_blocks> own{none, m.state->fallback_schedule, none, at};
    sequential_blocks{}.schedule(m.state->view, next, own);
  }
}

/// Turns the anchor's plan into that of a branch whose token is in its place; `keeps`: for good.
/// Returns false if the schedule plans no branch on its own.
template <std::size_t I = 0, class Policy>
UNMASK_HD bool replan(const slot_memory<Policy>& m, plan& next, const step_info& at, bool keeps) {
  if constexpr (I == Policy::leaf_total) {
    return false;
  } else {
    using leaf = typename Policy::template leaf_type<I>;
    if constexpr (replanning<leaf>) {
      auto own = scope_of<I>(m, 0, at);
      const sequence_state_of<leaf> before = own.sequence;
      m.policy->template part_at<I>().replan(m.state->view, next, own);
      if (!keeps) {
        own.sequence = before;
      }
      return true;
    } else {
      return replan<I + 1>(m, next, at, keeps);
    }
  }
}

/// Lets every watching part name its tokens for one position, open or settled.
template <mark What, std::size_t I = 0, class Policy>
UNMASK_HD void
watch(const slot_memory<Policy>& m, watch_list& list, index_t cell, const step_info& at) {
  if constexpr (I < Policy::leaf_total) {
    using leaf = typename Policy::template leaf_type<I>;
    if constexpr (watching<leaf> && (What == mark::open || revising_settled<leaf>)) {
      auto own = scope_of<I>(m, cell, at);
      m.policy->template part_at<I>().watch(list, own);
    }
    watch<What, I + 1>(m, list, cell, at);
  }
}

/// Lets every revising part have its turn at one row, open or settled, in written order, and every
/// part that asks about an open one. The first `Asked` answers belong to the parts before part I.
template <mark What, std::size_t I = 0, index_t Asked = 0, class Policy>
UNMASK_HD void revise(const slot_memory<Policy>& m,
                      revisable_row<Policy::required>& row,
                      index_t cell,
                      const step_info& at) {
  if constexpr (I < Policy::leaf_total) {
    using leaf = typename Policy::template leaf_type<I>;
    if constexpr (inquiring<leaf> && What == mark::open) {
      auto own = scope_of<I>(m, cell, at);
      narrowed_row<leaf::required, Policy::required, detail::says_watches<leaf>> narrow{row};
      const index_t i = at.position - m.status->next.score.first;
      token_probability* const out = m.asked + i * Policy::inquiries + Asked;
      const index_t count = m.policy->template part_at<I>().inquire(narrow, own, out);
      for (index_t k = 0; k < count; ++k) {
        out[k].slot = m.slot;
        out[k].position = at.position;
        out[k].step = at.step;
      }
    }
    if constexpr (revision<leaf> && (What == mark::open || revising_settled<leaf>)) {
      auto own = scope_of<I>(m, cell, at);
      narrowed_row<leaf::required, Policy::required, detail::says_watches<leaf>> narrow{row};
      m.policy->template part_at<I>().revise(narrow, own);
    }
    revise<What, I + 1, Asked + detail::inquiries_of<leaf>>(m, row, cell, at);
  }
}

/// True when every part lets a token be proposed at a position.
template <std::size_t I = 0, class Policy>
[[nodiscard]] UNMASK_HD bool allows([[maybe_unused]] const Policy& p,
                                    [[maybe_unused]] token_id token,
                                    [[maybe_unused]] const step_info& at) {
  if constexpr (I == Policy::leaf_total) {
    return true;
  } else if constexpr (restricting<typename Policy::template leaf_type<I>>) {
    return p.template part_at<I>().allows(token, at) && allows<I + 1>(p, token, at);
  } else {
    return allows<I + 1>(p, token, at);
  }
}

/// True when some part may delay candidates.
template <class Policy>
inline constexpr bool delays_any = stages<Policy>::delays > 0;

/// The strictest delay that a part wants for a candidate between these neighbours.
template <std::size_t I = 0, class Policy>
[[nodiscard]] UNMASK_HD delay delay_between(const slot_memory<Policy>& m,
                                            const candidate<Policy::required>& c,
                                            const neighbours<Policy::required>& beside,
                                            const step_info& at) {
  if constexpr (I == Policy::leaf_total) {
    return delay::none;
  } else {
    using leaf = typename Policy::template leaf_type<I>;
    const delay others = delay_between<I + 1>(m, c, beside, at);
    if constexpr (delaying<leaf>) {
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
      return wanted > others ? wanted : others;
    } else {
      return others;
    }
  }
}

/// The part that looks ahead.
template <std::size_t I = 0, class Policy>
[[nodiscard]] UNMASK_HD const auto& lookahead_of(const slot_memory<Policy>& m) {
  using leaf = typename Policy::template leaf_type<I>;
  if constexpr (branching<leaf>) {
    return m.policy->template part_at<I>();
  } else {
    return lookahead_of<I + 1>(m);
  }
}

/// The temperature that a drawing part asks for; 1 without one.
template <std::size_t I = 0, class Policy>
[[nodiscard]] UNMASK_HD float draw_temperature(const Policy& p) {
  if constexpr (I == Policy::leaf_total) {
    static_cast<void>(p);
    return 1.0F;
  } else if constexpr (drawing<typename Policy::template leaf_type<I>>) {
    return p.template part_at<I>().draw_temperature();
  } else {
    return draw_temperature<I + 1>(p);
  }
}

/// What the revisiting parts want of a settled position; the first that does not keep it decides.
template <std::size_t I = 0, class Policy>
[[nodiscard]] UNMASK_HD verdict revisit(const slot_memory<Policy>& m,
                                        const candidate<Policy::required>& c,
                                        const step_info& at) {
  if constexpr (I == Policy::leaf_total) {
    return verdict::keep;
  } else {
    using leaf = typename Policy::template leaf_type<I>;
    if constexpr (revisiting<leaf>) {
      auto own = scope_of<I>(m, m.cell_of(c.position), at);
      const auto narrow = c.template as<leaf::required>();
      const verdict v = m.policy->template part_at<I>().revisit(narrow, own);
      if (v == verdict::replace || (v == verdict::reopen && at.may_reopen)) {
        return v;
      }
    }
    return revisit<I + 1>(m, c, at);
  }
}

/// Calls the renoising part: what a position that was not admitted holds next, or, with `last`,
/// ends as.
template <std::size_t I = 0, class Policy>
[[nodiscard]] UNMASK_HD token_id
renoise(const slot_memory<Policy>& m, index_t position, const step_info& at, bool last) {
  using leaf = typename Policy::template leaf_type<I>;
  if constexpr (renoising<leaf>) {
    auto own = scope_of<I>(m, m.cell_of(position), at);
    const leaf& part = m.policy->template part_at<I>();
    return last ? part.conclude(own) : part.refill(position, own);
  } else {
    return renoise<I + 1>(m, position, at, last);
  }
}

}  // namespace unmask::step
