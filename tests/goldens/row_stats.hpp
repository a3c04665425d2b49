// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "goldens/lines.hpp"
#include "goldens/verdict.hpp"

namespace unmask::goldens {

/// Reads the row of a line with every kernel of this machine, at every temperature: the kernels
/// must agree with canonical::fold_chunk bit by bit, and that with the recorded numbers: token,
/// best and second logit exactly, the rest within the bounds that the rounding errors of a sum
/// have.
[[nodiscard]] verdict check_row_stats(const stats_line& line);

}  // namespace unmask::goldens
