// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/policy/position_frequency.hpp>

namespace UNMASK_NAMESPACE {

/// position_frequency with weights that fall linearly: the score is
///
///     (1 - lambda) b + lambda (B - i) / B
///
/// with i the index of the position in its block of B positions, and b the base
/// min(-c ln(f + 1e-9), alpha) of position_frequency, brought to [0, 1] by the lowest and the
/// highest base of the block's positions. Committed positions also count: with their token's
/// frequency and the confidence of their row's best token. A range below 1e-9 counts as 1e-9.
///
/// Range: lambda in [0, 1]; alpha > 0, in nats; rest and frequencies in [0, 1]. Reads
/// stat::confidence.
/// Ties: equal scores: the lower position is first. A row of NaN counts for nothing.
/// Cost: O(Count) a position; reads the rows of committed positions, and ranks twice. 8 Count bytes
/// in the value, no state.
/// Example: `linear_position([0], [0.5], 0.5) + tokens_per_step`, rows a90 b80 b70: `_b_` `_bb`
/// `abb`.
/// Source: P. Huang et al., Empirical analysis of decoding biases in masked diffusion models
/// (2025): the linear weights beside PC-Sampler, as the released code (UNCODE) computes them.
template <int Count = 256>
struct linear_position {
  static_assert(Count >= 1, "a table of no tokens: rank by another part");

  listed_token tokens[Count] = {};  ///< The most frequent tokens.
  float frequencies[Count] = {};    ///< Their frequencies.
  float lambda = 0.5F;
  float alpha = 1.0F;
  float rest = 0.0F;

  struct step_reduction {
    float low = math::infinity();    ///< the lowest base
    float high = -math::infinity();  ///< the highest one
    UNMASK_HD void merge(const step_reduction& other) {
      low = math::min(low, other.low);
      high = math::max(high, other.high);
    }
  };

  static constexpr statistics required = stat::confidence;
  static constexpr bool ranks_by_reduction = true;
  static constexpr bool reduces_committed = true;
  /// Sets the tokens from a text's list.
  static constexpr void take_tokens(linear_position& p, const double* values, index_t n) {
    for (index_t i = 0; i < n; ++i) {
      p.tokens[i] = static_cast<token_id>(values[i]);
    }
  }
  /// Sets the frequencies from a text's list.
  static constexpr void take_frequencies(linear_position& p, const double* values, index_t n) {
    for (index_t i = 0; i < n; ++i) {
      p.frequencies[i] = static_cast<float>(values[i]);
    }
  }
  static constexpr part_label label{
      "linear_position", "as position_frequency, with weights that fall linearly in the block"};
  static constexpr knob<linear_position> knobs[] = {
      {"tokens", knob_kind::tokens, Count, &take_tokens},
      {"frequencies", knob_kind::reals, Count, &take_frequencies},
      {"lambda", &linear_position::lambda, within(0, 1)},
      {"alpha", &linear_position::alpha, above(0).finite()},
      {"rest", &linear_position::rest, within(0, 1)}};

  void check(const sequence_shape&) const {
    for (index_t k = 0; k < Count; ++k) {
      check_argument(frequencies[k] >= 0.0F && frequencies[k] <= 1.0F,
                     "linear_position::frequencies",
                     frequencies[k],
                     "in [0, 1]");
    }
  }

  UNMASK_HD step_reduction reduce(const auto& c, const auto& context) const {
    const bool is_masked = context.at.view->is_masked(c.position);
    const float b = base(c.confidence(), is_masked ? c.token : c.current);
    return {b, b};
  }

  UNMASK_HD float score(const auto& c, const auto& context) const {
    const range block = context.at.view->block(context.at.block_index);
    const step_reduction& all = context.step_reduction;
    const float width = math::max(all.high - all.low, 1e-9F);
    const float b = math::divide(base(c.confidence(), c.token) - all.low, width);
    const float left =
        math::divide(static_cast<float>(block.last - c.position), static_cast<float>(block.size()));
    return math::fma(lambda, left, math::product(1.0F - lambda, b));
  }

  /// Edits nothing: committed positions are read for reduce().
  UNMASK_HD verdict edit_token(const auto&, auto&) const { return verdict::keep; }

 private:
  [[nodiscard]] UNMASK_HD float base(float confidence, token_id token) const {
    return detail::surprise(
        confidence, detail::frequency_of(tokens, frequencies, Count, rest, token), alpha);
  }
};
static_assert(ranking<linear_position<>> && step_reducing<linear_position<>>);

}  // namespace unmask
