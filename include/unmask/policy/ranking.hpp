// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/part.hpp>
#include <unmask/core/random.hpp>

namespace UNMASK_NAMESPACE {

/// Most probable token first: the score is the softmax probability of the proposed token, in [0,
/// 1].
///
/// Reads stat::confidence.
/// Example: `by_confidence + tokens_per_step`, rows a60 b90 c80: `_b_` `_bc` `abc`.
/// Source: S. Nie et al., Large language diffusion models (2025), section 2.4, which calls
/// committing in this order low-confidence remasking.
struct by_confidence {
  static constexpr statistics required = stat::confidence;
  static constexpr part_label label{
      "by_confidence", "the highest probability of the best token first; the default ranking"};
  static constexpr bool orders_by_confidence = true;
  UNMASK_HD float score(const auto& c) const { return c.confidence(); }
};
static_assert(ranking<by_confidence>);

/// Largest margin first: the score is the difference of the best and the second probability, in [0,
/// 1].
///
/// Reads stat::margin.
/// Example: `by_margin + tokens_per_step`, rows a60b35 b50c20d15: `_b` `ab`.
/// Source: J. Kim et al., Train for the worst, plan for the best (2025), section 4; `topk_margin`
/// in Dream.
struct by_margin {
  static constexpr statistics required = stat::margin;
  static constexpr part_label label{
      "by_margin", "the largest difference between the two highest probabilities first"};
  UNMASK_HD float score(const auto& c) const { return c.margin(); }
};
static_assert(ranking<by_margin>);

/// Lowest entropy first: the score is the negative entropy in nats, <= 0.
///
/// Reads stat::entropy. Source: J. Ye et al., Dream 7B (2025), decoding by `entropy`; H. Ben-Hamu
/// et al., Accelerated sampling from masked diffusion models via entropy bounded unmasking (2025).
/// Example: `by_entropy + tokens_per_step`, rows a70b15c15 b60a40: `_b` `ab`.
struct by_entropy {
  static constexpr statistics required = stat::entropy;
  static constexpr part_label label{"by_entropy", "the lowest entropy first"};
  UNMASK_HD float score(const auto& c) const { return -c.entropy(); }
};
static_assert(ranking<by_entropy>);

namespace detail {

/// Entropy, and `per_position` nats for each position right of the first masked one.
[[nodiscard]] UNMASK_HD float
entropy_with_distance(const auto& c, const auto& context, float per_position) {
  const auto positions = static_cast<float>(c.position - context.at.view->committed_prefix);
  return math::fma(per_position, positions, c.entropy());
}

}  // namespace detail

/// Lowest sum of the entropy and of the distance from the first masked position first:
///
///     score = -(H + distance (position - first masked position))
///
/// Range: distance >= 0, in nats a position. Reads stat::entropy.
/// Example: `by_entropy_and_distance(1) + tokens_per_step`, rows a70b15c15 b60a40: `a_` `ab`.
/// Source: WeDLM (2025), its position penalty, as released.
struct by_entropy_and_distance {
  float distance = 0.02F;
  static constexpr statistics required = stat::entropy;
  static constexpr part_label label{"by_entropy_and_distance",
                                    "the lowest entropy first, near the first masked position"};
  static constexpr knob<by_entropy_and_distance> knobs[] = {
      {"distance", &by_entropy_and_distance::distance, at_least(0).in("nats")}};
  UNMASK_HD float score(const auto& c, const auto& context) const {
    return -detail::entropy_with_distance(c, context, distance);
  }
};
static_assert(ranking<by_entropy_and_distance>);

/// Lowest position first.
/// Example: `left_to_right + tokens_per_step`, rows a60 b90: `a_` `ab`.
struct left_to_right {
  static constexpr statistics required = stat::none;
  static constexpr part_label label{"left_to_right", "the lowest position first"};
  UNMASK_HD float score(const auto& c) const { return -static_cast<float>(c.position); }
};
static_assert(ranking<left_to_right>);

/// Random order, drawn again at each step, uniformly, from the request's seed. The proposed token
/// is still the best one.
///
/// Example: `at_random + tokens_per_step`, rows a90 b80 c70 d60: `_b__` `_b_d` `ab_d` `abcd`.
/// Source: S. Nie et al., Large language diffusion models (2025), section 2.4, random remasking.
struct at_random {
  static constexpr statistics required = stat::none;
  static constexpr part_label label{"at_random", "a new random order in each step"};
  UNMASK_HD float score(const auto& c, const auto& context) const {
    return random_uniform({.seed = context.at.seed,
                           .sequence = context.at.sequence,
                           .step = context.at.step,
                           .position = c.position,
                           .token = -1});
  }
};
static_assert(ranking<at_random>);

/// Randomised ranking: score / `temperature` + Gumbel noise. The n best are n positions drawn
/// without replacement with probabilities softmax(score / temperature).
///
/// Range: temperature >= least_temperature.
/// Example: `alg_temperature(by_confidence, 0.5) + tokens_per_step`, rows a90 b80 c70 d60: `_b__`
/// `ab__` `ab_d` `abcd`.
/// Source: J. Ye et al., Dream 7B (2025), its sampler's `alg_temp`.
template <ranking Order>
struct alg_temperature {
  static_assert(
      requires(const Order& o, const detail::own_candidate<Order>& c) { o.score(c); },
      "alg_temperature makes a ranking random whose score(candidate) needs nothing else: "
      "at_random is random as it is");

  Order order{};  ///< The ranking that is made random.
  float temperature = 1.0F;
  static constexpr statistics required = Order::required;

  static constexpr part_label label{
      "alg_temperature",
      "the order of another ranking with Gumbel noise added to score / temperature"};
  static constexpr knob<alg_temperature> knobs[] = {
      {"temperature", &alg_temperature::temperature, at_least(least_temperature)}};

  UNMASK_HD float score(const auto& c, const auto& context) const {
    const float noise = random_gumbel({.seed = context.at.seed,
                                       .sequence = context.at.sequence,
                                       .step = context.at.step,
                                       .position = c.position,
                                       .token = -3});
    return math::fma(order.score(c), math::divide(1.0F, temperature), noise);
  }
};
template <ranking Order>
alg_temperature(Order, float) -> alg_temperature<Order>;
static_assert(ranking<alg_temperature<by_confidence>>);

}  // namespace unmask
