// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <span>
#include <string_view>

#include "goldens/verdict.hpp"

namespace unmask::goldens {

struct rule {
  std::string_view name;
  line_check check;
};

/// The rules that the library can replay, by the name that their lines carry.
[[nodiscard]] std::span<const rule> supported_rules();

}  // namespace unmask::goldens
