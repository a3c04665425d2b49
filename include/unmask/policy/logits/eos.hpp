// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/part.hpp>
#include <unmask/core/policy.hpp>

/// Rules for the EOS token, model_info::eos_token. Each part accepts a second EOS token in `also`.
/// Without both they have no effect. Stopping at a committed EOS token is in stop.hpp.
namespace UNMASK_NAMESPACE {

namespace detail {

[[nodiscard]] UNMASK_HD inline bool is_eos(const step_info& at, token_id token, token_id also) {
  return token != no_token && (token == at.view->eos_token || token == also);
}

UNMASK_HD void track_eos(auto& list, const step_info& at, token_id also) {
  if (at.view->eos_token != no_token) {
    list.add(at.view->eos_token);
  }
  if (also != no_token) {
    list.add(also);
  }
}

UNMASK_HD void add_to_eos(auto& row, const step_info& at, token_id also, float delta) {
  if (at.view->eos_token != no_token) {
    row.add(at.view->eos_token, delta);
  }
  if (also != no_token && also != at.view->eos_token) {
    row.add(also, delta);
  }
}

}  // namespace detail

/// Subtracts `penalty` nats from the logit of the EOS token: against answers that end too early and
/// against floods of EOS tokens. With `falls_over` = n > 0 the penalty falls linearly to 0 in n
/// forward passes of the sequence: penalty (1 - step / n), and 0 from step n on.
/// Range: penalty finite; negative values raise the logit. falls_over >= 0.
/// Cost: O(1) a row.
/// Example: `tokens_per_step + eos_penalty(1)`, rows e60b40, EOS e: `b` at 0.64.
struct eos_penalty {
  float penalty = 1.0F;
  token_id also = no_token;
  index_t falls_over = 0;

  static constexpr statistics required = stat::none;
  static constexpr index_t tracks = 2;
  static constexpr bool processes_committed = true;

  static constexpr part_label label{"eos_penalty", "subtracts penalty from the EOS token's logit"};
  static constexpr knob<eos_penalty> knobs[] = {
      {"penalty", &eos_penalty::penalty, any_finite()},
      {"also", &eos_penalty::also, a_token},
      {"falls_over", &eos_penalty::falls_over, at_least(0)}};

  UNMASK_HD void track(auto& list, const auto& context) const {
    detail::track_eos(list, context.at, also);
  }
  UNMASK_HD void process(auto& row, const auto& context) const {
    detail::add_to_eos(row, context.at, also, -math::product(penalty, share_left(context.at.step)));
  }

 private:
  [[nodiscard]] UNMASK_HD float share_left(index_t step) const {
    return falls_over == 0 ? 1.0F
           : step < falls_over
               ? math::divide(static_cast<float>(falls_over - step), static_cast<float>(falls_over))
               : 0.0F;
  }
};
static_assert(tracking<eos_penalty> && logits_processor<eos_penalty>);

/// Excludes the EOS token at the first `tokens` positions of the answer: a minimal length.
///
/// stop_at_eos then cannot end the sequence earlier; a stop sequence has a knob of its own. The
/// tokens that fill an ended sequence are not affected. Must be written before parts with a memory,
/// such as trace_credit.
/// Range: tokens >= 0.
/// Cost: O(1) a row.
/// Example: `tokens_per_step + min_new_tokens(1)`, rows e60b40 e90, EOS e: `b_` `be`.
/// Source: `min_tokens` of vLLM.
struct min_new_tokens {
  index_t tokens = 1;
  token_id also = no_token;

  static constexpr statistics required = stat::none;
  static constexpr bool precedes_memory = true;
  static constexpr index_t tracks = 2;
  static constexpr bool processes_committed = true;

  static constexpr part_label label{"min_new_tokens",
                                    "excludes the EOS token at the first positions of the answer"};
  static constexpr knob<min_new_tokens> knobs[] = {{"tokens", &min_new_tokens::tokens, at_least(0)},
                                                   {"also", &min_new_tokens::also, a_token}};

  UNMASK_HD void track(auto& list, const auto& context) const {
    if (context.at.position - context.at.view->prompt_length < tokens) {
      detail::track_eos(list, context.at, also);
    }
  }
  UNMASK_HD void process(auto& row, const auto& context) const {
    if (context.at.position - context.at.view->prompt_length < tokens) {
      detail::add_to_eos(row, context.at, also, -math::infinity());
    }
  }
  UNMASK_HD bool allows(token_id token, const step_info& at) const {
    return at.position - at.view->prompt_length >= tokens || !detail::is_eos(at, token, also);
  }
};
static_assert(tracking<min_new_tokens> && logits_processor<min_new_tokens> &&
              restricting<min_new_tokens>);

/// Rejects an EOS token while its left neighbour is masked, so that a text ends where its tokens
/// do: a forced block commits it only if it has no other candidate.
///
/// With `until_first` the rule stops once an EOS token is committed in the answer.
/// Cost: O(1) a candidate, with `until_first` O(length) for one that would be rejected.
/// Example: `threshold(0.7) + eos_gate`, rows a60 e90 c80, EOS e: `__c` `a_c` `aec`.
/// Source: ES-dLLM (2026), appendix B.2; `until_first` is `delay_eos_generation` of its released
/// code, which still commits such a token if a fixed number of commits a step requires it.
struct eos_gate {
  bool until_first = false;
  token_id also = no_token;

  static constexpr statistics required = stat::none;

  static constexpr part_label label{"eos_gate",
                                    "rejects an EOS token whose left neighbour is masked"};
  static constexpr knob<eos_gate> knobs[] = {{"until_first", &eos_gate::until_first},
                                             {"also", &eos_gate::also, a_token}};

  UNMASK_HD filter_result filter(const auto& c, const auto& context) const {
    const sequence_view& q = *context.at.view;
    const bool held = detail::is_eos(context.at, c.token, also) && c.position > q.prompt_length &&
                      q.is_masked(c.position - 1);
    return held && !(until_first && has_ended(context.at)) ? filter_result::rejected
                                                           : filter_result::keep;
  }

 private:
  [[nodiscard]] UNMASK_HD bool has_ended(const step_info& at) const {
    const sequence_view& q = *at.view;
    index_t p = q.prompt_length;
    while (p < q.length && (q.is_masked(p) || !detail::is_eos(at, q.tokens[p], also))) {
      ++p;
    }
    return p < q.length;
  }
};
static_assert(candidate_filter<eos_gate>);

/// Ranks EOS tokens last: a candidate that proposes one has confidence and margin 0 and infinite
/// entropy, and ranks after all others. It still is a candidate: a commit rule with a fixed number
/// of tokens may commit it. The report has its true log-probability.
///
/// Cost: O(1) a candidate.
/// Example: `threshold(0.7) + eos_last`, rows e90 b60, EOS e: `_b` `eb`.
/// Source: S. Nie et al., Large language diffusion models (2025), its sampler's
/// `confidence_eos_eot_inf`, as intended there.
struct eos_last {
  token_id also = no_token;

  static constexpr statistics required = stat::none;

  static constexpr part_label label{"eos_last", "ranks EOS tokens after all others"};
  static constexpr knob<eos_last> knobs[] = {{"also", &eos_last::also, a_token}};

  UNMASK_HD filter_result filter(const auto& c, const auto& context) const {
    return detail::is_eos(context.at, c.token, also) ? filter_result::ranked_last
                                                     : filter_result::keep;
  }
};
static_assert(candidate_filter<eos_last>);

}  // namespace unmask
