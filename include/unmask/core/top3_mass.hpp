// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/field.hpp>

namespace UNMASK_NAMESPACE::field {

/// The second and third largest logits of a row, with multiplicity; -inf where there is none. Exact
/// in any order. A zero is held as +0.
struct top3_mass {
  static constexpr statistics names = stat::top3_mass;     ///< The statistic of the field.
  float next[2] = {-math::infinity(), -math::infinity()};  ///< The larger one first.

  /// Columns up to it change nothing.
  [[nodiscard]] UNMASK_HD float bar() const { return next[1]; }
  /// Adds a column.
  UNMASK_HD void add(float logit, float /*below*/) {
    const float x = logit + 0.0F;  // -0 becomes +0, for equal bits
    next[1] = math::max(next[1], math::min(next[0], x));
    next[0] = math::max(next[0], x);
  }
  /// Adds other columns.
  UNMASK_HD void join(const top3_mass& other) {
    add(other.next[0], 0.0F);
    add(other.next[1], 0.0F);
  }

  /// e^(z - best) of the best and the next two columns, added up.
  [[nodiscard]] UNMASK_HD float weight_of_three(float best) const {
    return 1.0F + math::exp_nonpositive(next[0] - best) + math::exp_nonpositive(next[1] - best);
  }
};

}  // namespace unmask::field
