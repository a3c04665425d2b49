// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string_view>
#include <vector>

namespace unmask::ptx {

/// A program with a mistake, and the same without it.
struct planted {
  std::string_view name;
  /// What the report says.
  std::string_view report;
  /// Runs it and waits.
  void (*run)(bool is_right);
};

[[nodiscard]] const std::vector<planted>& planted_defects();

}  // namespace unmask::ptx
