// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/types.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace UNMASK_NAMESPACE::detail {

/// A name in this library, and the name of the same in the interface for another language.
struct name_elsewhere {
  std::string_view here;
  std::string_view there;
};

/// The message of an error with the names of another interface, so that it names the caller's
/// argument.
[[nodiscard]] inline std::string renamed(std::string text, std::span<const name_elsewhere> names) {
  for (const auto& [here, there] : names) {
    for (std::size_t at = 0; (at = text.find(here, at)) != std::string::npos; at += there.size()) {
      text.replace(at, here.size(), there);
    }
  }
  return text;
}

}  // namespace UNMASK_NAMESPACE::detail
