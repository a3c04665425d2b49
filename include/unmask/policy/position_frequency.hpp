// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/part.hpp>

namespace UNMASK_NAMESPACE {

namespace detail {

/// Frequency of a token among `count` tokens with theirs; `rest` for every other token.
[[nodiscard]] UNMASK_HD inline float frequency_of(const listed_token* tokens,
                                                  const float* frequencies,
                                                  index_t count,
                                                  float rest,
                                                  token_id token) {
  float found = rest;
  for (index_t k = 0; k < count && tokens[k] != no_token; ++k) {
    found = token_id{tokens[k]} == token ? frequencies[k] : found;
  }
  return found;
}

/// min(-c ln(f + 1e-9), alpha) for a confidence c and a frequency f.
[[nodiscard]] UNMASK_HD inline float surprise(float confidence, float frequency, float alpha) {
  return math::min(math::product(confidence, -math::log(frequency + 1e-9F)), alpha);
}

}  // namespace detail

/// Left positions first, and of two tokens the one that is surer and less common in text: the order
/// follows
///
///     e^(-lambda i) min(-c ln(f + 1e-9), alpha)
///
/// whose logarithm is the score, with c the confidence, i the index of the position in its block,
/// and f the frequency of the proposed token in a corpus. The most frequent tokens are given, at
/// most `Count`; all others have the frequency `rest`. bench/token_frequencies.py counts them.
///
///     position_frequency<2>{{newline, comma}, {0.04F, 0.03F}}
///
/// Range: lambda >= 0; alpha > 0, in nats; rest and frequencies in [0, 1], where a frequency of 0
/// is 20.7 nats, and of 1 puts a token after all others. Reads stat::confidence.
/// Ties: with lambda = 0 all scores that reach alpha are equal, and the lower position is first.
/// Cost: O(Count) a candidate; 8 Count bytes in the value, no state.
/// Example: `position_frequency([0], [0.5], 0.1) + tokens_per_step`, rows a90 b80 b70: `_b_` `_bb`
/// `abb`.
/// Source: P. Huang et al., Empirical analysis of decoding biases in masked diffusion models
/// (2025), PC-Sampler, as its released code (UNCODE) computes it, with unknown tokens at 0.
template <int Count = 256>
struct position_frequency {
  static_assert(Count >= 1, "a table of no tokens: rank by another part");

  listed_token tokens[Count] = {};  ///< The most frequent tokens.
  float frequencies[Count] = {};    ///< Their frequencies.
  float lambda = 1.0F;
  float alpha = 1.0F;
  float rest = 0.0F;

  static constexpr statistics required = stat::confidence;
  /// Sets the tokens from a text's list.
  static constexpr void take_tokens(position_frequency& p, const double* values, index_t n) {
    for (index_t i = 0; i < n; ++i) {
      p.tokens[i] = static_cast<token_id>(values[i]);
    }
  }
  /// Sets the frequencies from a text's list.
  static constexpr void take_frequencies(position_frequency& p, const double* values, index_t n) {
    for (index_t i = 0; i < n; ++i) {
      p.frequencies[i] = static_cast<float>(values[i]);
    }
  }
  static constexpr part_label label{
      "position_frequency", "left positions first, and tokens that are sure and rare in text"};
  static constexpr knob<position_frequency> knobs[] = {
      {"tokens", knob_kind::tokens, Count, &take_tokens},
      {"frequencies", knob_kind::reals, Count, &take_frequencies},
      {"lambda", &position_frequency::lambda, at_least(0).finite()},
      {"alpha", &position_frequency::alpha, above(0).finite()},
      {"rest", &position_frequency::rest, within(0, 1)}};

  void check(const sequence_shape&) const {
    for (index_t k = 0; k < Count; ++k) {
      check_argument(frequencies[k] >= 0.0F && frequencies[k] <= 1.0F,
                     "position_frequency::frequencies",
                     frequencies[k],
                     "in [0, 1]");
    }
  }

  UNMASK_HD float score(const auto& c, const auto& context) const {
    const range block = context.at.view->block(context.at.block_index);
    const float far = math::product(lambda, static_cast<float>(c.position - block.first));
    const float base = detail::surprise(
        c.confidence(), detail::frequency_of(tokens, frequencies, Count, rest, c.token), alpha);
    return (base > 1.2e-38F ? math::log(base) : -math::infinity()) - far;
  }
};
static_assert(ranking<position_frequency<>>);

}  // namespace unmask
