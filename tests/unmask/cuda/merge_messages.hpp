// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/ranks/message.hpp>

#include <cstddef>
#include <vector>

namespace unmask::testing {

inline constexpr statistics exchanged = stat::margin | stat::entropy | stat::sampled;

/// ranks::merge() of two messages of `exchanged` records, called in a kernel.
[[nodiscard]] std::vector<std::byte> merged_on_device(const std::vector<std::byte>& left,
                                                      const std::vector<std::byte>& right);

}  // namespace unmask::testing
