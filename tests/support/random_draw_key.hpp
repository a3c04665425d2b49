// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/random.hpp>

#include <cstdint>

#include "support/dice.hpp"

namespace unmask::testing {

/// The key of a random draw.
[[nodiscard]] inline random_key random_draw_key(dice& d) {
  return {d.bits(), static_cast<std::uint32_t>(d.bits()), d.within(0, 9), d.within(0, 99)};
}

}  // namespace unmask::testing
