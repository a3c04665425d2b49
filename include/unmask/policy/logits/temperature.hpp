// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/logits.hpp>
#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/part.hpp>
#include <unmask/core/random.hpp>

namespace UNMASK_NAMESPACE {

/// Divides every logit by `value` before any statistic, as Dream's sampler does: a value below 1
/// sharpens the distribution.
/// Range: value >= least_temperature.
/// Example: `tokens_per_step + temperature(0.5)`, rows a80b20: `a` at 0.94.
struct temperature {
  float value = 1.0F;
  static constexpr statistics required = stat::none;
  static constexpr part_label label{
      "temperature", "divides every logit by value before any statistic is computed"};
  static constexpr knob<temperature> knobs[] = {
      {"value", &temperature::value, at_least(least_temperature)}};

  [[nodiscard]] UNMASK_HD logit_factor transform_at(const step_info&) const {
    return {math::divide(1.0F, value)};
  }
  /// False at temperature 1, which changes nothing.
  [[nodiscard]] UNMASK_HD bool transforms_now() const { return value != 1.0F; }
};
static_assert(logits_transform<temperature>);

/// Proposes a token drawn from the row's distribution at temperature `temperature` instead of the
/// most probable one; the confidence is the drawn token's softmax probability at temperature 1.
///
/// The draw is exact and made in the same read, from the request's seed, so it depends neither on
/// batch nor on slot. If the best logit divided by the temperature overflows, the most probable
/// token is proposed. To draw from, and rank by, the sharpened row as Dream does, add temperature{}
/// and keep this temperature at 1. Tokens whose logits are edited after the read (credit,
/// penalties, bias) are drawn with their edited logits.
/// Range: temperature >= 0; 0 proposes the most probable token, as without the part.
/// Example: `tokens_per_step(4) + sampling`, rows a60b40 a60b40 a60b40 a60b40: `aaab`.
/// Source: S. Nie et al., Large language diffusion models (2025), its sampler (Gumbel noise on the
/// logits, confidence without).
struct sampling {
  float temperature = 1.0F;
  static constexpr statistics required = stat::sampled;

  static constexpr part_label label{"sampling",
                                    "proposes a drawn token instead of the most probable one"};
  static constexpr knob<sampling> knobs[] = {{"temperature", &sampling::temperature, at_least(0)}};

  [[nodiscard]] UNMASK_HD float draw_temperature() const { return temperature; }
};
static_assert(drawing<sampling>);

}  // namespace unmask
