// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/knob.hpp>
#include <unmask/core/policy.hpp>
#include <unmask/core/part.hpp>

/// Rules for the end token, model_info::end_token. Each part accepts a second end token in `also`.
/// Without both they have no effect. Stopping at a committed end token is in stop.hpp.
namespace UNMASK_NAMESPACE {

namespace detail {

[[nodiscard]] UNMASK_HD inline bool is_end(const step_info& at, token_id token, token_id also) {
  return token != no_token && (token == at.view->end_token || token == also);
}

UNMASK_HD void watch_ends(auto& list, const step_info& at, token_id also) {
  if (at.view->end_token != no_token) {
    list.add(at.view->end_token);
  }
  if (also != no_token) {
    list.add(also);
  }
}

UNMASK_HD void add_to_ends(auto& row, const step_info& at, token_id also, float delta) {
  if (at.view->end_token != no_token) {
    row.add(at.view->end_token, delta);
  }
  if (also != no_token && also != at.view->end_token) {
    row.add(also, delta);
  }
}

}  // namespace detail

/// Subtracts `penalty` nats from the logit of the end token: against answers that end too early and
/// against floods of end tokens.
/// Range: finite; negative values raise the logit.
/// Cost: O(1) a row.
struct end_penalty {
  float penalty = 1.0F;
  token_id also = no_token;

  static constexpr statistics required = stat::none;
  static constexpr index_t watches = 2;
  static constexpr bool revises_settled = true;

  static constexpr part_label label{"end_penalty", "end_penalty", "lowers the end token's logit"};
  static constexpr knob<end_penalty> knobs[] = {
      {"penalty", &end_penalty::penalty, any_finite()},
      {"also", &end_penalty::also, a_token}};

  UNMASK_HD void watch(auto& list, const auto& own) const {
    detail::watch_ends(list, own.at, also);
  }
  UNMASK_HD void revise(auto& row, const auto& own) const {
    detail::add_to_ends(row, own.at, also, -penalty);
  }
};
static_assert(watching<end_penalty> && revision<end_penalty>);

/// Excludes the end token at the first `tokens` positions of the answer: a minimal length.
///
/// stop_at_end then cannot end the sequence earlier; a stop sequence has a knob of its own. The
/// tokens that fill an ended sequence are not affected. Must be written before parts with a memory,
/// such as trace_credit.
/// Range: tokens >= 0.
/// Cost: O(1) a row.
/// Source: `min_tokens` of vLLM.
struct no_end_before {
  index_t tokens = 1;
  token_id also = no_token;

  static constexpr statistics required = stat::none;
  static constexpr bool precedes_memory = true;
  static constexpr index_t watches = 2;
  static constexpr bool revises_settled = true;

  static constexpr part_label label{
      "no_end_before", "no_end_before", "no end token among the first tokens of the answer"};
  static constexpr knob<no_end_before> knobs[] = {
      {"tokens", &no_end_before::tokens, at_least(0)},
      {"also", &no_end_before::also, a_token}};

  UNMASK_HD void watch(auto& list, const auto& own) const {
    if (own.at.position - own.at.view->prompt < tokens) {
      detail::watch_ends(list, own.at, also);
    }
  }
  UNMASK_HD void revise(auto& row, const auto& own) const {
    if (own.at.position - own.at.view->prompt < tokens) {
      detail::add_to_ends(row, own.at, also, -math::infinity());
    }
  }
  UNMASK_HD bool allows(token_id token, const step_info& at) const {
    return at.position - at.view->prompt >= tokens || !detail::is_end(at, token, also);
  }
};
static_assert(watching<no_end_before> && revision<no_end_before> && restricting<no_end_before>);

/// Rejects an end token while its left neighbour is masked, so that a text ends where its tokens
/// do: a forced block commits it only if it has no other candidate.
///
/// With `until_first` the rule stops once an end token is committed in the answer.
/// Cost: O(1) a candidate, with `until_first` O(length) for one that would be rejected.
/// Source: ES-dLLM (2026), appendix B.2; `until_first` is `delay_eos_generation` of its released
/// code, which still commits such a token if a fixed number of commits a step requires it.
struct hold_end {
  bool until_first = false;
  token_id also = no_token;

  static constexpr statistics required = stat::none;

  static constexpr part_label label{"hold_end", "hold_end", "no end token behind an open position"};
  static constexpr knob<hold_end> knobs[] = {
      {"until_first", &hold_end::until_first},
      {"also", &hold_end::also, a_token}};

  UNMASK_HD delay delays(const auto& c, const auto& own) const {
    const sequence_view& q = *own.at.view;
    const bool held =
        detail::is_end(own.at, c.token, also) && c.position > q.prompt && q.is_open(c.position - 1);
    return held && !(until_first && has_ended(own.at)) ? delay::refused : delay::none;
  }

 private:
  [[nodiscard]] UNMASK_HD bool has_ended(const step_info& at) const {
    const sequence_view& q = *at.view;
    index_t p = q.prompt;
    while (p < q.length && (q.is_open(p) || !detail::is_end(at, q.tokens[p], also))) {
      ++p;
    }
    return p < q.length;
  }
};
static_assert(delaying<hold_end>);

/// Ranks end tokens last: a candidate that proposes one has confidence and margin 0 and infinite
/// entropy, and ranks behind all others. It still is a candidate: a commit rule with a fixed number
/// of tokens may commit it. The report has its true log-probability.
///
/// Cost: O(1) a candidate.
/// Source: S. Nie et al., Large language diffusion models (2025), its sampler's
/// `confidence_eos_eot_inf`, as intended there.
struct end_last {
  token_id also = no_token;

  static constexpr statistics required = stat::none;

  static constexpr part_label label{"end_last", "end_last", "end tokens rank behind all others"};
  static constexpr knob<end_last> knobs[] = {{"also", &end_last::also, a_token}};

  UNMASK_HD delay delays(const auto& c, const auto& own) const {
    return detail::is_end(own.at, c.token, also) ? delay::last : delay::none;
  }
};
static_assert(delaying<end_last>);

}  // namespace unmask
