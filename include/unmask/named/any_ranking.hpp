// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named/own_parts.hpp>
#include <unmask/policy/linear_position.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/position_frequency.hpp>
#include <unmask/policy/ranking.hpp>

namespace UNMASK_NAMESPACE {

/// Statistics that a read collects for every policy composed by name, whatever its parts.
inline constexpr statistics named_statistics =
    stat::confidence | stat::margin | stat::entropy |
    detail::statistics_of_own(detail::proper_own_parts{});

/// A ranking selected at run time; with `temperature` other than 0 alg_temperature{} of it at that
/// temperature.
/// Range: temperature >= 0; 0 for at_random and for a ranking that reads the context.
struct any_ranking {
  using rules = choice_of_stage<part_stage::ranking,
                                by_confidence,
                                by_margin,
                                by_entropy,
                                left_to_right,
                                at_random,
                                position_frequency<>,
                                linear_position<>>;
  using step_reduction = rules::step_reductions;

  rules by = {};
  float temperature = 0.0F;

  static constexpr statistics required = named_statistics;
  static constexpr bool orders_by_confidence = true;  // or the reader of names refuses it
  static constexpr bool ranks_by_reduction = true;
  static constexpr bool reduces_committed = true;

  UNMASK_LIBRARY void check(const sequence_shape& g, const model_info& m) const;

  [[nodiscard]] statistics required_now() const { return by.required_now(); }
  UNMASK_HD float score(const auto& c, auto& context) const {
    return by.visit_with(context, [&](const auto& order, auto& inner) -> float {
      using rule = std::remove_cvref_t<decltype(order)>;
      if constexpr (!is_plain<rule>) {
        return order.score(c, inner);
      } else {
        return temperature == 0.0F ? order.score(c)
                                   : alg_temperature<rule>{order, temperature}.score(c, inner);
      }
    });
  }

  [[nodiscard]] UNMASK_HD bool ranks_by_reduction_now() const {
    return by.does<&part_traits::ranks_by_reduction>();
  }
  [[nodiscard]] UNMASK_HD bool reduces_now() const { return by.does<&part_traits::reduces>(); }
  UNMASK_HD step_reduction reduce(const auto& c, auto& context) const {
    return by.reduce_with(context, c);
  }
  /// Edits nothing: committed positions are read for reduce().
  UNMASK_HD verdict edit_token(const auto&, auto&) const { return verdict::keep; }
  [[nodiscard]] UNMASK_HD bool edits_tokens_now() const {
    return by.does<&part_traits::edits_tokens>();
  }

 private:
  // True for a ranking that scores a candidate by nothing else.
  template <class Order>
  static constexpr bool is_plain =
      requires(const Order& o, const detail::own_candidate<Order>& c) { o.score(c); };
};
static_assert(ranking<any_ranking>);

#if UNMASK_DEFINES
UNMASK_LIBRARY void any_ranking::check(const sequence_shape& g, const model_info& m) const {
  by.visit_on_host([&](const auto& order) {
    check_part(order, g, m);
    check_argument(temperature == 0.0F || (temperature >= least_temperature &&
                                           is_plain<std::remove_cvref_t<decltype(order)>>),
                   "any_ranking::temperature",
                   temperature,
                   "0, or at least 1e-06 with a ranking that needs no context, "
                   "which at_random does");
  });
}
#endif

/// by_confidence, by_margin or by_entropy, selected at run time: the branch score of lookahead.
struct any_lookahead_score {
  enum class order : std::uint8_t { confidence, margin, entropy };
  order by = order::confidence;

  static constexpr statistics required = named_statistics;

  [[nodiscard]] statistics required_now() const {
    return by == order::confidence ? stat::confidence : named_statistics;
  }
  UNMASK_HD float score(const auto& c) const {
    return by == order::confidence ? by_confidence{}.score(c)
           : by == order::margin   ? by_margin{}.score(c)
                                   : by_entropy{}.score(c);
  }
};
static_assert(ranking<any_lookahead_score> && branching<lookahead_by<any_lookahead_score>>);

}  // namespace unmask
