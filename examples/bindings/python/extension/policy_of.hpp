// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named_policy.hpp>

#include <string>

namespace unmask_python {

/// Reads a text, which may name files or not.
[[nodiscard]] inline unmask::named_policy policy_of(const std::string& text, bool files) {
  return files ? unmask::read_policy(text) : unmask::read_policy(text, unmask::no_files);
}

}  // namespace unmask_python
