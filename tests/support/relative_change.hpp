// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/policy.hpp>

namespace unmask::testing {

/// A layer rule that a user may write: computes the half of the masked rows that changed most,
/// relative to the mean of the masked ones, and of the others those above it.
struct relative_change {
  static constexpr statistics required = stat::none;
  static constexpr feature reads = feature::hidden;
  static constexpr drift_terms measures = drift_terms::distance_1;
  static constexpr skipping skipped = skipping::kept;

  UNMASK_HD constexpr bool hooks(index_t layer, index_t) const { return layer > 0; }
  UNMASK_HD float measure(const drift_sums& d) const {
    return math::divide(d.distance_1, static_cast<float>(d.columns));
  }
  UNMASK_HD bool counts(const layer_row& row, const layer_info&, const auto&) const {
    return row.masked;
  }
  UNMASK_HD float importance(const layer_row& row, const layer_info& info, const auto&) const {
    return row.masked || row.drift > info.mean ? math::divide(row.drift, 1.0F + info.largest)
                                               : -math::infinity();
  }
  UNMASK_HD index_t quota(const layer_info& info, const auto&) const { return info.active / 2; }
};
static_assert(layer_rule<relative_change> && counting<relative_change> &&
              !looking<relative_change>);

}  // namespace unmask::testing
