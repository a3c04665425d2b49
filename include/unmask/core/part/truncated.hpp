// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/field.hpp>

namespace UNMASK_NAMESPACE::field {

/// Number and probabilities, in the whole row, of the tokens that a truncation keeps. It is written
/// after the read (canonical::kept_totals); {} is of a row that was not truncated.
struct truncated {
  static constexpr statistics names = stat::truncated;  ///< The statistic of the field.
  index_t kept_count = 0;                               ///< Number of tokens.
  float kept_share = 0.0F;                              ///< Sum of their probabilities.
  float least_share = 0.0F;                             ///< The least of these.
};

}  // namespace unmask::field
