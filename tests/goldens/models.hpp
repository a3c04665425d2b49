// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file The lines of released models, each decoded by the model's word.

#include <span>

#include "goldens/rules.hpp"

namespace unmask::goldens {

/// The rules of models.
[[nodiscard]] std::span<const rule> rules_of_models();

}  // namespace unmask::goldens
