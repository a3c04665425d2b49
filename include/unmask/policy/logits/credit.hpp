// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/part.hpp>

namespace UNMASK_NAMESPACE {

namespace detail {

/// A token and its credit.
struct credit_slot {
  token_id token = no_token;
  float credit = 0.0F;
};

// One step of credit for one row: decay, add the credit of the leading token, edit the logits.
template <int Slots>
UNMASK_HD void earn_credit(auto& row,
                           index_t& size,
                           credit_slot (&slots)[Slots],
                           float strength,
                           float decay,
                           float exponent) {
  const auto raw = row.total();
  if (!raw.valid()) {
    return;  // a part before this one has left nothing to propose
  }
  index_t lead = -1;
  for (index_t i = 0; i < size; ++i) {
    slots[i].credit = math::product(slots[i].credit, decay);
    if (slots[i].token == raw.token) {
      lead = i;
    }
  }
  if (lead < 0 && size < Slots) {
    lead = size++;
    slots[lead] = {raw.token, 0.0F};
  }
  if (lead >= 0) {
    slots[lead].credit += math::pow_of_probability(raw.confidence(), exponent);
  }
  for (index_t i = 0; i < size; ++i) {
    row.add(slots[i].token, math::product(strength, math::log1p(slots[i].credit)));
  }
}

}  // namespace detail

/// Trace credit: a token that stays the most probable one of a position earns credit, which raises
/// its logit.
///
/// At each scored step, with p* the probability of the leading token v* before the edit:
///     C(v) = decay C(v) for all v;  C(v*) += p*^exponent;  z(v) += strength ln(1 + C(v)).
/// Ranking and commit rule use the edited row, so credit combines with all of them.
///
/// A position gets a slot for a token the first time it leads, so at most one new token a step;
/// every other token has credit 0 and an unedited logit. `Slots` bounds their number: if it is at
/// least the number of steps in which the position can be masked, the rule is exactly the dense
/// one. A token that finds no free slot earns nothing; no slot is evicted. A position that is not
/// scored keeps its credit unchanged.
///
/// Range: strength >= 0, decay in [0, 1], exponent >= 0. Reads stat::confidence.
/// State: 8 bytes a slot and position, reset when the position commits and when a sequence starts.
/// Cost: O(slots) a row.
///
/// Equation 13, credit for every token instead of the leading one, is not implemented: it would
/// keep and rewrite 4 bytes for each position and column (16 MB for 32 positions of 126,464), raise
/// each to a power in every step, and read each row twice, first for the probabilities that add
/// credit, then for the edited row. By tables 5 and 6 it gains 0.01 and 0.20 points and loses a
/// tenth of the speed; the paper recommends the leading token.
///
/// Example: `threshold(0.8) + trace_credit`, rows a85 b70 c70: `a__` `abc`.
/// Source: CreditDecoding (2025), section 4.2, equations 4 to 7 and algorithm 1; the defaults are
/// from section 5.1; `credit_released` has the defaults of the code.
template <int Slots = 64>
struct trace_credit {
  float strength = 0.65F;
  float decay = 0.7F;
  float exponent = 0.2F;

  struct position_state {
    index_t size = 0;
    detail::credit_slot slots[Slots];  // each starts itself; "= {}" here breaks g++ 12
  };

  static constexpr statistics required = stat::confidence;
  static constexpr index_t tracks = Slots;

  static constexpr part_label label{
      "trace_credit",
      "raises the logits of tokens that were the best of their row in earlier steps"};
  static constexpr knob<trace_credit> knobs[] = {
      {"strength", &trace_credit::strength, at_least(0)},
      {"decay", &trace_credit::decay, within(0, 1)},
      {"exponent", &trace_credit::exponent, at_least(0)}};

  UNMASK_HD void track(auto& list, auto& context) const {
    for (index_t i = 0; i < context.state.size; ++i) {
      list.add(context.state.slots[i].token);
    }
  }

  UNMASK_HD void process(auto& row, auto& context) const {
    detail::earn_credit(row, context.state.size, context.state.slots, strength, decay, exponent);
  }
};
static_assert(tracking<trace_credit<>> && logits_processor<trace_credit<>>);

/// Positions over which adaptive_credit computes the committed fraction.
enum class committed_share : std::uint8_t { answer, block };

/// Trace credit without knobs: exponent 1, and strength = decay = the committed fraction before the
/// step, of the whole answer or of the position's block. Credit grows with this fraction and is 0
/// as long as nothing is committed there. State and slots as in trace_credit.
///
/// Example: `threshold(0.74) + adaptive_credit`, rows a85 b70 c70: `a__` `abc`.
/// Source: CreditDecoding (2025), section 4.3; section 3.1 defines the masked ratio over the whole
/// sequence, so `block` is this library's.
template <int Slots = 64>
struct adaptive_credit {
  committed_share of = committed_share::answer;

  using position_state = typename trace_credit<Slots>::position_state;

  static constexpr statistics required = stat::confidence;
  static constexpr part_label label{
      "adaptive_credit",
      "trace_credit with the committed share of the answer as strength and decay"};
  static constexpr knob<adaptive_credit> knobs[] = {
      word_knob<&adaptive_credit::of>("of", "answer|block")};
  static constexpr index_t tracks = Slots;

  UNMASK_HD void track(auto& list, auto& context) const {
    for (index_t i = 0; i < context.state.size; ++i) {
      list.add(context.state.slots[i].token);
    }
  }

  UNMASK_HD void process(auto& row, auto& context) const {
    const bool of_block = of == committed_share::block;
    const sequence_view& q = *context.at.view;
    const index_t masked = of_block ? context.at.block_masked : q.masked_count;
    const index_t all = of_block ? context.at.block_length : q.length - q.prompt_length;
    const float share = 1.0F - math::divide(static_cast<float>(masked), static_cast<float>(all));
    detail::earn_credit(row, context.state.size, context.state.slots, share, share, 1.0F);
  }
};
static_assert(tracking<adaptive_credit<>> && logits_processor<adaptive_credit<>>);

/// trace_credit with the values of the released code.
template <int Slots = 64>
inline constexpr trace_credit<Slots> credit_released{
    .strength = 0.7F, .decay = 0.8F, .exponent = 0.2F};

}  // namespace unmask
