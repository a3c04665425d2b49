// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/types.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace UNMASK_NAMESPACE::detail {

/// Bytes of the UTF-8 character at the beginning of a text; 0 if there is none.
[[nodiscard]] inline std::size_t utf8_character_size(std::string_view text) {
  const auto byte = [&text](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : std::uint32_t{0};
  };
  const std::uint32_t first = byte(0);
  if (first < 0x80) {
    return text.empty() ? 0 : 1;
  }
  const std::size_t size = first >> 5U == 6 ? 2 : first >> 4U == 14 ? 3 : first >> 3U == 30 ? 4 : 0;
  std::uint32_t code = first & (0x7FU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if (byte(i) >> 6U != 2) {
      return 0;
    }
    code = code << 6U | (byte(i) & 0x3FU);
  }
  constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >> 11U == 0x1B;
  return code < least[size] || code > 0x10FFFF || is_surrogate ? 0 : size;
}

}  // namespace UNMASK_NAMESPACE::detail
