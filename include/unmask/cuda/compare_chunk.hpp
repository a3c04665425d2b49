// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/stage_chunk.hpp>
#include <unmask/stats/compare.hpp>

namespace UNMASK_NAMESPACE::device {

namespace detail {

// Overwrites a chunk's logits of the previous step.
template <element T>
UNMASK_HD void replace_previous(
    const auto& b, const row_input<T>& row, index_t first, index_t count, const chunk_logits& z) {
  float* const mine = row.previous + first;
  unrolled<2 * lane_columns>([&](index_t i) {
    const index_t column = column_of(b, i);
    if (column < count) {
      mine[column] = z[i];
    }
  });
}

// canonical::compare_chunk, by a warp. `valid`: no logit is NaN and the best is finite.
template <statistics S, element T>
UNMASK_HD void compare(const auto& b,
                       const row_input<T>& row,
                       index_t first,
                       index_t count,
                       const chunk_logits& z,
                       bool valid,
                       record<S>& r) {
  const previous_row before = row.before;
  const index_t groups = (count + canonical::lanes - 1) / canonical::lanes;
  float cross[2] = {0.0F, 0.0F};
  float shared[2] = {0.0F, 0.0F};
  const float* const mine = row.previous + first;
  unrolled<2 * lane_columns>([&](index_t i) {
    const index_t column = column_of(b, i);
    if (i / 2 < groups) {
      const bool known = column < count && before.seen;
      const float then = known ? mine[column] : -math::infinity();
      const float e = math::exp_nonpositive(math::difference(z[i], r.best));
      const float log_p =
          math::max(then - before.best - before.log_total, canonical::log_of_least_probability);
      const float old_e = before.seen ? math::exp_nonpositive(then - before.best) : 0.0F;
      cross[i % 2] = math::fma(e, old_e, cross[i % 2]);
      shared[i % 2] = math::fma(e, log_p, shared[i % 2]);
    }
  });
  const float nan = math::from_bits(0x7fc00000U);
  if constexpr (provides_v<S, stat::drift>) {
    const float sum = sum_of_lanes(b, cross[0], cross[1]);
    r.cross = valid ? sum : nan;
  }
  if constexpr (provides_v<S, stat::divergence>) {
    const float sum = sum_of_lanes(b, shared[0], shared[1]);
    r.shared = valid ? sum : nan;
  }
  replace_previous(b, row, first, count, z);
}

}  // namespace detail

}  // namespace unmask::device
