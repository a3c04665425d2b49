// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/ranking.hpp>

namespace UNMASK_NAMESPACE {

/// Statistics that a read collects for every policy composed by name, whatever its parts.
inline constexpr statistics named_statistics = stat::confidence | stat::margin | stat::entropy;

/// Criterion of a ranking.
enum class order : std::uint8_t { confidence, margin, entropy, left_to_right, random };

/// by_confidence, by_margin, by_entropy, left_to_right or at_random, selected at run time; with
/// `temperature` other than 0 alg_temperature{} of it at that temperature.
/// Range: temperature >= 0; 0 for at_random.
struct any_ranking {
  order by = order::confidence;
  float temperature = 0.0F;

  static constexpr statistics required = named_statistics;
  static constexpr bool orders_by_confidence = true;  // or the reader of names refuses it

  void check(const sequence_shape&) const {
    check_argument(temperature == 0.0F || (temperature >= least_temperature && by != order::random),
                   "any_ranking::temperature",
                   temperature,
                   "0, or at least least_temperature unless the order is at_random");
  }

  UNMASK_HD float score(const auto& c, const auto& context) const {
    switch (by) {
    case order::confidence:
      return with_noise(by_confidence{}, c, context);
    case order::margin:
      return with_noise(by_margin{}, c, context);
    case order::entropy:
      return with_noise(by_entropy{}, c, context);
    case order::left_to_right:
      return with_noise(left_to_right{}, c, context);
    case order::random:
      break;
    }
    return at_random{}.score(c, context);
  }

 private:
  template <class Order>
  UNMASK_HD float with_noise(const Order& order, const auto& c, const auto& context) const {
    return temperature == 0.0F ? order.score(c)
                               : alg_temperature<Order>{order, temperature}.score(c, context);
  }
};
static_assert(ranking<any_ranking>);

/// by_confidence, by_margin or by_entropy, selected at run time: the branch score of lookahead.
struct any_lookahead_score {
  order by = order::confidence;

  static constexpr statistics required = named_statistics;

  UNMASK_HD float score(const auto& c) const {
    return by == order::confidence ? by_confidence{}.score(c)
           : by == order::margin   ? by_margin{}.score(c)
                                   : by_entropy{}.score(c);
  }
};
static_assert(ranking<any_lookahead_score> && branching<lookahead_by<any_lookahead_score>>);

}  // namespace unmask
