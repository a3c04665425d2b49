// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/part.hpp>

/// Penalties for repetition, newline floods and doubled words. tokens.hpp says which parts go
/// together.
namespace UNMASK_NAMESPACE {

namespace detail {

/// Distinct tokens and the number of times each occurs.
template <int Distinct>
struct token_counts {
  token_id tokens[Distinct];
  index_t counts[Distinct];
  index_t size = 0;

  // Counts a token; ignored if there is no room for another one.
  UNMASK_HD void see(token_id token) {
    index_t i = 0;
    while (i < size && tokens[i] != token) {
      ++i;
    }
    if (i == size && size < Distinct) {
      tokens[size] = token;
      counts[size++] = 0;
    }
    if (i < size) {
      ++counts[i];
    }
  }
};

// The committed and given tokens within `window` positions of a position, nearest first and left
// before right, so that the farthest are left out if there is no room.
template <int Distinct>
[[nodiscard]] UNMASK_HD token_counts<Distinct>
tokens_around(const step_info& at, index_t window, bool prompt) {
  const sequence_view& q = *at.view;
  const index_t first = prompt ? 0 : q.prompt_length;
  token_counts<Distinct> seen;
  for (index_t d = 1; d <= window; ++d) {
    const index_t left = at.position - d;
    const index_t right = at.position + d;
    if (left < first && right >= q.length) {
      break;
    }
    if (left >= first && !q.is_masked(left)) {
      seen.see(q.tokens[left]);
    }
    if (right < q.length && !q.is_masked(right)) {
      seen.see(q.tokens[right]);
    }
  }
  return seen;
}

}  // namespace detail

/// Makes tokens that occur nearby less probable, once each: z / penalty if z > 0, z * penalty
/// otherwise, for every token that is committed or given within `window` positions on either side.
///
/// At most `Distinct` different tokens count, the nearest ones. `prompt` decides whether tokens of
/// the prompt do. Depends on the zero of the logits, as in its source. No state.
/// Range: penalty > 0, 1 has no effect, below 1 encourages; window >= 1.
/// Cost: O(window * Distinct) a row.
/// Example: `tokens_per_step + repetition_penalty(2)`, prompt a, rows a60b40: `b` at 0.53.
/// Source: N. Keskar et al., CTRL (2019), section 4.1, with the sign rule of its implementations.
template <int Distinct = 32>
struct repetition_penalty {
  float penalty = 1.1F;
  index_t window = 64;
  bool prompt = true;

  static constexpr statistics required = stat::none;
  static constexpr index_t tracks = Distinct;
  static constexpr bool reads_sequence = true;
  static constexpr bool processes_committed = true;

  static constexpr part_label label{
      "repetition_penalty",
      "divides positive and multiplies negative logits of tokens within window by penalty"};
  static constexpr knob<repetition_penalty> knobs[] = {
      {"penalty", &repetition_penalty::penalty, above(0).finite()},
      {"window", &repetition_penalty::window, at_least(1)},
      {"prompt", &repetition_penalty::prompt}};

  UNMASK_HD void track(auto& list, const auto& context) const {
    const auto seen = detail::tokens_around<Distinct>(context.at, window, prompt);
    for (index_t i = 0; i < seen.size; ++i) {
      list.add(seen.tokens[i]);
    }
  }

  UNMASK_HD void process(auto& row, const auto& context) const {
    const auto seen = detail::tokens_around<Distinct>(context.at, window, prompt);
    for (index_t i = 0; i < seen.size; ++i) {
      const float z = row.logit(seen.tokens[i]);
      if (math::is_finite(z)) {
        row.add(seen.tokens[i],
                z > 0.0F ? math::divide(z, penalty) - z : math::fma(z, penalty, -z));
      }
    }
  }
};
static_assert(tracking<repetition_penalty<>> && logits_processor<repetition_penalty<>>);

/// Subtracts presence + frequency * n from the logit of a token that occurs n >= 1 times within
/// `window` positions on either side, committed or given.
///
/// At most `Distinct` different tokens count, the nearest ones. `prompt` decides whether tokens of
/// the prompt do. No state.
/// Range: nats, finite, negative encourages; window >= 1.
/// Cost: O(window * Distinct) a row.
/// Example: `tokens_per_step + presence_frequency_penalty(1, prompt=true)`, prompt a, rows a60b40:
/// `b` at 0.64.
/// Source: `presence_penalty` and `frequency_penalty` of the OpenAI completion interface.
template <int Distinct = 32>
struct presence_frequency_penalty {
  float presence = 0.0F;
  float frequency = 0.0F;
  index_t window = 64;
  bool prompt = false;

  static constexpr statistics required = stat::none;
  static constexpr index_t tracks = Distinct;
  static constexpr bool reads_sequence = true;
  static constexpr bool processes_committed = true;

  static constexpr part_label label{
      "presence_frequency_penalty",
      "subtracts presence + frequency * count from logits of tokens within window"};
  static constexpr knob<presence_frequency_penalty> knobs[] = {
      {"presence", &presence_frequency_penalty::presence, any_finite()},
      {"frequency", &presence_frequency_penalty::frequency, any_finite()},
      {"window", &presence_frequency_penalty::window, at_least(1)},
      {"prompt", &presence_frequency_penalty::prompt}};

  UNMASK_HD void track(auto& list, const auto& context) const {
    const auto seen = detail::tokens_around<Distinct>(context.at, window, prompt);
    for (index_t i = 0; i < seen.size; ++i) {
      list.add(seen.tokens[i]);
    }
  }

  UNMASK_HD void process(auto& row, const auto& context) const {
    const auto seen = detail::tokens_around<Distinct>(context.at, window, prompt);
    for (index_t i = 0; i < seen.size; ++i) {
      row.add(seen.tokens[i], -math::fma(frequency, static_cast<float>(seen.counts[i]), presence));
    }
  }
};
static_assert(tracking<presence_frequency_penalty<>> &&
              logits_processor<presence_frequency_penalty<>>);

/// Subtracts `penalty` nats from the logit of the token directly left of the position, if it is
/// committed or given; with `both_sides` also from that of the token directly right (twice, if they
/// are equal).
///
/// No state.
/// Range: penalty >= 0.
/// Cost: O(1) a row.
/// Example: `tokens_per_step + neighbour_penalty(1)`, prompt a, rows a60b40: `b` at 0.64.
/// Source: SGLang, `JointThreshold`, penalty_lambda.
struct neighbour_penalty {
  float penalty = 1.0F;
  bool both_sides = false;

  static constexpr statistics required = stat::none;
  static constexpr index_t tracks = 2;
  static constexpr bool reads_sequence = true;
  static constexpr bool processes_committed = true;

  static constexpr part_label label{
      "neighbour_penalty", "subtracts penalty from the logit of the token at the left neighbour"};
  static constexpr knob<neighbour_penalty> knobs[] = {
      {"penalty", &neighbour_penalty::penalty, at_least(0).finite()},
      {"both_sides", &neighbour_penalty::both_sides}};

  UNMASK_HD void track(auto& list, const auto& context) const {
    for_each(context.at, [&list](token_id token) { list.add(token); });
  }
  UNMASK_HD void process(auto& row, const auto& context) const {
    for_each(context.at, [&row, this](token_id token) { row.add(token, -penalty); });
  }

 private:
  UNMASK_HD void for_each(const step_info& at, const auto& use) const {
    const sequence_view& q = *at.view;
    if (at.position > 0 && !q.is_masked(at.position - 1)) {
      use(q.tokens[at.position - 1]);
    }
    if (both_sides && at.position + 1 < q.length && !q.is_masked(at.position + 1)) {
      use(q.tokens[at.position + 1]);
    }
  }
};
static_assert(tracking<neighbour_penalty> && logits_processor<neighbour_penalty>);

/// Two adjacent positions never commit equal tokens in one step, because neither row was computed
/// with the other token: the less confident of the two (the right one, if they are equal) is
/// rejected until the next step.
///
/// It is rejected whether or not the other one commits. In a run of equal proposals the most
/// confident ones can commit as long as no two are adjacent. A forced block commits a rejected
/// candidate if it has no other. EOS tokens may be adjacent unless `eos_too`. Reads
/// stat::confidence.
/// Cost: O(1) a candidate, no state.
/// Example: `threshold(0.7) + no_equal_neighbours`, rows a80 a90 b85: `_ab` `aab`.
struct no_equal_neighbours {
  bool eos_too = false;
  static constexpr statistics required = stat::confidence;
  static constexpr part_label label{
      "no_equal_neighbours",
      "rejects the less probable of two neighbours that propose the same token"};
  static constexpr knob<no_equal_neighbours> knobs[] = {{"eos_too", &no_equal_neighbours::eos_too}};

  UNMASK_HD filter_result filter(const auto& c, const auto& beside, const auto& context) const {
    if (c.token == context.at.view->eos_token && !eos_too) {
      return filter_result::keep;
    }
    const bool left = beside.left.valid() && beside.left.token == c.token &&
                      beside.left.confidence() >= c.confidence();
    const bool right = beside.right.valid() && beside.right.token == c.token &&
                       beside.right.confidence() > c.confidence();
    return left || right ? filter_result::rejected : filter_result::keep;
  }
};
static_assert(candidate_filter<no_equal_neighbours>);

}  // namespace unmask
