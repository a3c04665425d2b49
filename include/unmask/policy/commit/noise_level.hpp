// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/schedule.hpp>
#include <unmask/core/random.hpp>

/// Commit rules by the noise level of a diffusion, which falls from 1 to `epsilon` over `steps`
/// forward passes of the whole sequence, t(j) = 1 + j (epsilon - 1) / steps: after step j the share
/// t(j+1) / t(j) of the masked positions is still masked, after the last step none. Steps before
/// the last one may commit nothing; from the last one on each commits at least one token, as with
/// other rules.
/// Range: steps >= 1, 0 < epsilon < 1.
namespace UNMASK_NAMESPACE {

namespace detail {

// Share of the masked positions that step j commits; 1 from the last step on. t(j) is evaluated
// from the nearer end, as a linear space in float is.
[[nodiscard]] UNMASK_HD inline float noise_share(index_t j, index_t steps, float epsilon) {
  if (j + 1 >= steps) {
    return 1.0F;
  }
  const float width = math::divide(epsilon - 1.0F, static_cast<float>(steps));
  const auto time = [&](index_t k) {
    return k < steps - steps / 2 ? math::fma(width, static_cast<float>(k), 1.0F)
                                 : math::fma(-width, static_cast<float>(steps - k), epsilon);
  };
  return 1.0F - math::divide(time(j + 1), time(j));
}

}  // namespace detail

/// Commits the best-ranked share of the m masked positions, rounded down; all of them in the last
/// step:
///
///     rank < floor(m (1 - t(j + 1) / t(j))),  t(j) = 1 + j (epsilon - 1) / steps
///
/// Range: steps >= 1, 0 < epsilon < 1.
/// Example: `timesteps(2)`, rows a90 b80 c70 d60: `a___` `abcd`.
/// Source: J. Ye et al., Dream 7B (2025), its released sampler (`maskgit_plus`, `topk_margin`,
/// `entropy` by ranking).
struct timesteps {
  index_t steps = 512;
  float epsilon = 1e-3F;
  static constexpr statistics required = stat::none;
  static constexpr bool counts_steps = true;

  static constexpr part_label label{
      "timesteps",
      "commits the share of the masked positions that Dream's noise schedule has for the step"};
  static constexpr knob<timesteps> knobs[] = {{"steps", &timesteps::steps, at_least(1)},
                                              {"epsilon", &timesteps::epsilon, above(0).below(1)}};

  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const sequence_shape&) const {
    return steps - 1;
  }

  UNMASK_HD bool commits(const auto&, const rank_info& s, const auto& context) const {
    const float share = detail::noise_share(context.at.step, steps, epsilon);
    return s.rank < static_cast<index_t>(static_cast<float>(s.candidates) * share);
  }
};
static_assert(commit_rule<timesteps>);

/// Commits each masked position independently, whatever its rank, with probability
/// 1 - t(j + 1) / t(j); all of them in the last step. See timesteps.
///
/// Range: steps >= 1, 0 < epsilon < 1.
/// Example: `independent_timesteps(4)`, rows a90 b80 c70 d60: `____` `____` `___d` `abcd`.
/// Source: J. Ye et al., Dream 7B (2025), its released sampler, `origin`.
struct independent_timesteps {
  index_t steps = 512;
  float epsilon = 1e-3F;
  static constexpr statistics required = stat::none;
  static constexpr bool counts_steps = true;

  static constexpr part_label label{
      "independent_timesteps",
      "commits each masked position by chance, with the share of timesteps as probability"};
  static constexpr knob<independent_timesteps> knobs[] = {
      {"steps", &independent_timesteps::steps, at_least(1)},
      {"epsilon", &independent_timesteps::epsilon, above(0).below(1)}};

  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const sequence_shape&) const {
    return steps - 1;
  }

  UNMASK_HD bool commits(const auto& c, const rank_info&, const auto& context) const {
    const float u = random_uniform({.seed = context.at.seed,
                                    .sequence = context.at.sequence,
                                    .step = context.at.step,
                                    .position = c.position,
                                    .token = -2});
    return u < detail::noise_share(context.at.step, steps, epsilon);
  }
};
static_assert(commit_rule<independent_timesteps>);

}  // namespace unmask
