// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/core/part.hpp>

namespace UNMASK_NAMESPACE {

/// Scales every logit by 1 / `value` before any statistic is taken, as Dream's sampler does. Below 1 it
/// sharpens. Range value > 0.
struct temperature {
  float value = 1.0F;
  static constexpr statistics required = stat::none;
  void check(const layout&) const { check_argument(value > 0.0F, "temperature::value", value, "positive"); }

  UNMASK_HD float edit(float logit, token_id) const { return logit * math::divide(1.0F, value); }
};
static_assert(logit_edit<temperature>);

}  // namespace unmask
