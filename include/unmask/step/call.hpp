// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/decided.hpp>
#include <unmask/core/part/answer_end.hpp>
#include <unmask/core/walk.hpp>
#include <unmask/stats/row.hpp>
#include <unmask/step/slot.hpp>

/// Calls the functions of a policy's parts, each with the candidate narrowed to the statistics that
/// the part declared and with its own state: a part that reads more does not compile.
namespace UNMASK_NAMESPACE::step {

/// The step reduction of a visited part among those of a policy.
template <class At>
[[nodiscard]] UNMASK_HD auto& reduction_of(auto& all, [[maybe_unused]] no_state& none) {
  using part_type = typename At::type;
  if constexpr (std::is_same_v<step_reduction_of<part_type>, no_state>) {
    return none;
  } else if constexpr (At::in_family) {
    using family = typename At::family_type;
    return family::template reduction_of<part_type>(
        detail::get_indexed<At::index, step_reduction_of<family>>(all));
  } else {
    return detail::get_indexed<At::index, step_reduction_of<part_type>>(all);
  }
}

/// Context of part I for one position (`cell`) of one sequence.
template <std::size_t I, class Policy>
[[nodiscard]] UNMASK_HD part_context<typename Policy::template part_type<I>>
context_of(const slot_memory<Policy>& m, index_t cell, const step_info& at) {
  using part_type = typename Policy::template part_type<I>;
  return {m.template state_at<I, position_state_of<part_type>>(cell),
          detail::get_indexed<I, sequence_state_of<part_type>>(*m.sequence),
          detail::get_indexed<I, step_reduction_of<part_type>>(*m.step_reductions),
          at};
}

/// State of the sequence of a visited part.
template <class At, class Policy>
[[nodiscard]] UNMASK_HD auto& sequence_state_at(const At& v, const slot_memory<Policy>& m) {
  using part_type = typename At::type;
  using state = sequence_state_of<part_type>;
  if constexpr (At::in_family) {
    using family = typename At::family_type;
    return family::template state_of<part_type, state>(
        detail::get_indexed<At::index, sequence_state_of<family>>(*m.sequence), v.value, v.none);
  } else {
    return detail::get_indexed<At::index, state>(*m.sequence);
  }
}

/// State of a visited part at a cell.
template <class At, class Policy>
[[nodiscard]] UNMASK_HD auto&
position_state_at(const At& v, const slot_memory<Policy>& m, [[maybe_unused]] index_t cell) {
  using state = position_state_of<typename At::type>;
  if constexpr (At::in_family && !std::is_same_v<state, no_state>) {
    using family = typename At::family_type;
    if constexpr (family::has_own_states) {
      return family::template state_of<typename At::type, state>(
          m.template state_at<At::index, typename family::position_state>(cell), v.value, v.none);
    } else {
      return m.template state_at<At::index, state>(cell);
    }
  } else {
    return m.template state_at<At::index, state>(cell);
  }
}

/// Context of a visited part.
template <class At, class Policy>
[[nodiscard]] UNMASK_HD part_context<typename At::type>
context_of(const At& v, const slot_memory<Policy>& m, index_t cell, const step_info& at) {
  return {position_state_at(v, m, cell),
          sequence_state_at(v, m),
          reduction_of<At>(*m.step_reductions, v.none),
          at};
}

using detail::text_index_of;

namespace call {

template <class Part>
[[nodiscard]] UNMASK_HD float score(const Part& p, const auto& c, auto& context) {
  if constexpr (requires { p.score(c, context); }) {
    return p.score(c, context);
  } else {
    return p.score(c);
  }
}

}  // namespace call

/// Score of a candidate by the policy's ranking.
template <class Policy>
[[nodiscard]] UNMASK_HD float
score(const slot_memory<Policy>& m, const candidate<Policy::required>& c, const step_info& at) {
  float found = 0.0F;
  detail::visit_parts<&part_traits::ranks>(*m.policy, [&](const auto& v) {
    using part_type = typename std::remove_cvref_t<decltype(v)>::type;
    auto context = context_of(v, m, m.cell_of(c.position), at);
    found = call::score(v.part, c.template as<part_type::required>(), context);
  });
  return found;
}

/// Number of parts of the policy in each stage.
template <class Policy>
struct stages {
  template <bool part_traits::* Does>
  static constexpr auto number_of = static_cast<int>(detail::parts_that<Policy, Does>::count);
  static constexpr int costs = number_of<&part_traits::costs>;
  static constexpr int schedules = number_of<&part_traits::schedules>;
  static constexpr int paces = number_of<&part_traits::paces>;
  static constexpr int replans = number_of<&part_traits::replans>;
  static constexpr int edits = number_of<&part_traits::transforms>;
  static constexpr int logits_processors = number_of<&part_traits::processes_logits>;
  static constexpr int filter = number_of<&part_traits::filters>;
  static constexpr int reviews = number_of<&part_traits::reviews>;
  static constexpr int restricts = number_of<&part_traits::restricts>;
  static constexpr int gates = number_of<&part_traits::gates>;
};

/// Cost of a candidate by the policy's commit rule.
template <class Policy>
[[nodiscard]] UNMASK_HD float cost(const slot_memory<Policy>& m,
                                   const candidate<Policy::required>& c) {
  static_assert(stages<Policy>::costs == 1,
                "a commit rule may contain one part with a cost, not two");
  float sum = 0.0F;  // the same for all parts that have one
  detail::visit_parts<&part_traits::costs>(*m.policy, [&](const auto& v) {
    using part_type = typename std::remove_cvref_t<decltype(v)>::type;
    sum = v.part.cost(c.template as<part_type::required>());
  });
  return sum;
}

/// Calls the stopping parts; the first one as written that ends the sequence decides.
template <class Policy>
[[nodiscard]] UNMASK_HD ending stop(const slot_memory<Policy>& m, const step_info& at) {
  decided<ending> first{ending::running, -1};
  for_each_active_part<active_parts::stops_now>(m, [&](const auto& v) {
    if (first.result == ending::running || v.text_index < first.part) {
      const ending e = apart<Policy>([&] {
        auto context = context_of(v, m, 0, at);
        return v.part.stop(m.state->view, context);
      });
      first = e == ending::running ? first : decided<ending>{e, v.text_index};
    }
  });
  return first.result;
}

/// Position after the answer of a sequence that has come to the end `e`
/// (sequence_report::answer_end): at most the committed prefix, before fill() extends it. A stop
/// sequence of a part that does not say where it is ends with the committed prefix.
template <class Policy>
[[nodiscard]] UNMASK_HD index_t answer_end(const slot_memory<Policy>& m, ending e) {
  const sequence_view& q = m.state->view;
  index_t end = q.committed_prefix;
  if (e == ending::eos_token) {
    end = math::min(end, detail::end_at_eos(q));
  }
  detail::visit_parts<&part_traits::stops>(
      *m.policy, [&](const auto& v) { end = math::min(end, detail::answer_end_of(v.part, q)); });
  return end;
}

/// Calls the policy's schedule for the plan of the next step.
template <class Policy>
UNMASK_HD void schedule(const slot_memory<Policy>& m, plan& next, const step_info& at) {
  if constexpr (stages<Policy>::schedules > 0) {
    detail::visit_parts<&part_traits::schedules>(*m.policy, [&](const auto& v) {
      auto context = context_of(v, m, 0, at);
      v.part.schedule(m.state->view, next, context);
    });
  } else {
    no_state none;
    part_context<semi_autoregressive> context{none, m.state->fallback_schedule, none, at};
    semi_autoregressive{}.schedule(m.state->view, next, context);
  }
}

/// Changes the anchor's plan into that of a branch whose token is in place, if the schedule plans
/// branches separately; with `keeps` the schedule's state is updated.
template <class Policy>
UNMASK_HD void replan([[maybe_unused]] const slot_memory<Policy>& m,
                      [[maybe_unused]] plan& next,
                      [[maybe_unused]] const step_info& at,
                      [[maybe_unused]] bool keeps) {
  detail::visit_parts<&part_traits::replans>(*m.policy, [&](const auto& v) {
    auto context = context_of(v, m, 0, at);
    const auto before = context.sequence;
    v.part.replan(m.state->view, next, context);
    if (!keeps) {
      context.sequence = before;
    }
  });
}

/// Collects the tracked tokens of all parts for one position, masked or committed.
template <mark What, class Policy>
UNMASK_HD void
track(const slot_memory<Policy>& m, tracked_list& list, index_t cell, const step_info& at) {
  for_each_active_part<active_parts::names_tokens_now>(m, [&](const auto& v) {
    using part_type = typename std::remove_cvref_t<decltype(v)>::type;
    if constexpr (What == mark::masked || processing_committed<part_type> ||
                  block_rewriting<part_type>) {
      auto context = context_of(v, m, cell, at);
      v.part.track(list, context);
    }
  });
}

/// Runs the logits processors on one row, of a masked or committed position, in written order, and
/// the probes on rows of masked positions.
template <mark What, class Policy>
UNMASK_HD void process(const slot_memory<Policy>& m,
                       revisable_row<Policy::required>& row,
                       index_t cell,
                       const step_info& at) {
  index_t written = 0;  // by the probes of a family
  for_each_active_part<active_parts::processes_now>(m, [&](const auto& v) {
    using visited = std::remove_cvref_t<decltype(v)>;
    using part_type = typename visited::type;
    if constexpr (probing<part_type> && What == mark::masked) {
      auto context = context_of(v, m, cell, at);
      narrowed_row<part_type::required, Policy::required, detail::declares_tracks<part_type>>
          narrow{row};
      const index_t i = at.position - m.status->next.score.first;
      token_probability* const out = m.probed + i * m.needs.probes +
                                     detail::probes_before<Policy, visited::index> +
                                     (visited::in_family ? written : 0);
      const index_t count = v.part.probe(narrow, context, out);
      for (index_t k = 0; k < count; ++k) {
        out[k].slot = m.slot;
        out[k].position = at.position;
        out[k].step = at.step - m.spared();
      }
      written += count;
    }
    if constexpr (logits_processor<part_type> &&
                  (What == mark::masked || processing_committed<part_type>)) {
      auto context = context_of(v, m, cell, at);
      narrowed_row<part_type::required, Policy::required, detail::declares_tracks<part_type>>
          narrow{row};
      v.part.process(narrow, context);
    }
  });
}

/// True if every part allows a token at a position.
template <class Policy>
[[nodiscard]] UNMASK_HD bool allows(const Policy& p, token_id token, const step_info& at) {
  bool all = true;
  detail::visit_parts<&part_traits::restricts>(
      p, [&](const auto& v) { all = all && v.part.allows(token, at); });
  return all;
}

/// True if every part allows a token that is about to be written at a position.
template <class Policy>
[[nodiscard]] UNMASK_HD bool
admits(const slot_memory<Policy>& m, index_t position, token_id token, const step_info& at) {
  bool all = true;
  detail::visit_parts<&part_traits::gates>(*m.policy, [&](const auto& v) {
    if (all) {
      auto context = context_of(v, m, m.cell_of(position), at);
      all = v.part.admits(position, token, context);
    }
  });
  return all;
}

/// True if some part filters candidates.
template <class Policy>
inline constexpr bool filters_any = stages<Policy>::filter > 0;

/// The strictest result of the parts' filter() for a candidate between these neighbours, and the
/// first part that returns it.
template <class Policy>
[[nodiscard]] UNMASK_HD decided<filter_result>
filter_between(const slot_memory<Policy>& m,
               const candidate<Policy::required>& c,
               const neighbours<Policy::required>& beside,
               const step_info& at) {
  decided<filter_result> strictest{filter_result::keep, -1};
  for_each_active_part<active_parts::filters_now>(m, [&](const auto& v) {
    using part_type = typename std::remove_cvref_t<decltype(v)>::type;
    constexpr statistics seen = part_type::required;
    auto context = context_of(v, m, m.cell_of(c.position), at);
    const auto narrow = c.template as<seen>();
    decided<filter_result> wanted{filter_result::keep, v.text_index};
    if constexpr (detail::filters_alone<part_type>) {
      wanted.result = v.part.filter(narrow, context);
    } else {
      const neighbours<seen> near{beside.left.template as<seen>(),
                                  beside.right.template as<seen>()};
      wanted.result = v.part.filter(narrow, near, context);
    }
    strictest = wanted.result > strictest.result ? wanted : strictest;
  });
  return strictest;
}

/// The lookahead part.
template <class Policy>
[[nodiscard]] UNMASK_HD const auto& lookahead_of(const slot_memory<Policy>& m) {
  return m.policy->template part_at<detail::part_that<Policy, &part_traits::looks_ahead>>();
}

/// Result of edit_token() for a committed position, from the first part that does not keep it.
template <class Policy>
[[nodiscard]] UNMASK_HD decided<verdict> edit_token(const slot_memory<Policy>& m,
                                                    const candidate<Policy::required>& c,
                                                    const step_info& at) {
  decided<verdict> found{verdict::keep, -1};
  detail::visit_parts<&part_traits::edits_tokens>(*m.policy, [&](const auto& v) {
    if (found.part < 0 && found.result == verdict::keep) {
      using part_type = typename std::remove_cvref_t<decltype(v)>::type;
      auto context = context_of(v, m, m.cell_of(c.position), at);
      const auto narrow = c.template as<part_type::required>();
      const verdict wanted = v.part.edit_token(narrow, context);
      const bool decides =
          wanted == verdict::replace || (wanted == verdict::remask && at.may_remask);
      found = decides ? decided<verdict>{wanted, v.text_index} : found;
    }
  });
  return found;
}

/// True if the checked token of a committed position stays.
template <class Policy>
[[nodiscard]] UNMASK_HD bool
accepts(const slot_memory<Policy>& m, const candidate<Policy::required>& c, const step_info& at) {
  bool stands = true;
  detail::visit_parts<&part_traits::verifies>(*m.policy, [&](const auto& v) {
    using part_type = typename std::remove_cvref_t<decltype(v)>::type;
    auto context = context_of(v, m, m.cell_of(c.position), at);
    stands = v.part.accepts(c.template as<part_type::required>(), context);
  });
  return stands;
}

/// Calls the renoising part for the next token of a position that is not committed or, with `last`,
/// for its final token.
template <class Policy>
[[nodiscard]] UNMASK_HD token_id
renoise(const slot_memory<Policy>& m, index_t position, const step_info& at, bool last) {
  token_id token = no_token;
  detail::visit_parts<&part_traits::renoises>(*m.policy, [&](const auto& v) {
    auto context = context_of(v, m, m.cell_of(position), at);
    token = last ? v.part.conclude(context) : v.part.refill(position, context);
  });
  return token;
}

}  // namespace unmask::step
