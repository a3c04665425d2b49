// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/logits.hpp>
#include <unmask/stats/row_accumulator.hpp>
#include <unmask/stats/sum_of_lanes.hpp>

/// Comparison of a row with the same position's row of the previous step, which the session stores.
namespace UNMASK_NAMESPACE::canonical {

/// Smaller probabilities of the previous row count as this one, so that no logarithm of zero
/// occurs.
inline constexpr float log_of_least_probability = -27.631021F;  // ln 1e-12

/// True if S contains a statistic of the previous row.
template <statistics S>
inline constexpr bool compares = provides_v<S, stat::drift> || provides_v<S, stat::divergence>;

/// Completes a chunk's record with sum e^(z-m) e^(z'-m') and sum e^(z-m) ln p', in canonical lane
/// order, and overwrites the previous row's columns by this row's. `z` and `previous` are `count`
/// columns of the two rows; `before` has the sums of the previous one; with `before.seen` false
/// there is none, and all its probabilities count as the least.
template <statistics S>
UNMASK_HD void compare_chunk(
    record<S>& r, const float* z, float* previous, index_t count, const previous_row& before) {
  if constexpr (compares<S>) {
    constexpr index_t width = 64;
    float cross[width] = {};
    float shared[width] = {};
    const float best = r.best;
    const float old_best = before.best;
    const float old_log_total = before.log_total;
    for (index_t start = 0; start < count; start += width) {
      float now[width];
      float then[width];
      for (index_t i = 0; i < width; ++i) {
        const bool inside = start + i < count;
        now[i] = inside ? z[start + i] : -math::infinity();
        then[i] = inside && before.seen ? previous[start + i] : -math::infinity();
      }
      for (index_t i = 0; i < width; ++i) {
        const float e = math::exp_nonpositive(now[i] - best);
        const float log_p = math::max(then[i] - old_best - old_log_total, log_of_least_probability);
        const float old_e = before.seen ? math::exp_nonpositive(then[i] - old_best) : 0.0F;
        cross[i] = math::fma(e, old_e, cross[i]);
        shared[i] = math::fma(e, log_p, shared[i]);
      }
      for (index_t i = 0; i < width && start + i < count; ++i) {
        previous[start + i] = now[i];
      }
    }
    if constexpr (provides_v<S, stat::drift>) {
      r.cross = sum_of_lanes(cross);
    }
    if constexpr (provides_v<S, stat::divergence>) {
      r.shared = sum_of_lanes(shared);
    }
  }
}

}  // namespace unmask::canonical
