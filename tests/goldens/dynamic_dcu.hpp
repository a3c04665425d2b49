// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "goldens/verdict.hpp"

namespace unmask::goldens {

/// Passes through the layers of a model that only has features: which layers are whole, budgets,
/// windows, selected positions, changes and their means.
[[nodiscard]] verdict check_dynamic_dcu(const node& line);

}  // namespace unmask::goldens
