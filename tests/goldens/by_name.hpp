// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <span>

#include "goldens/rules.hpp"

namespace unmask::goldens {

/// The rules of the second batch of lines that a text decodes.
[[nodiscard]] std::span<const rule> rules_by_name();

}  // namespace unmask::goldens
