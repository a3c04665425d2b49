// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "engine/gguf.hpp"

// Internal to the GGUF reader: the parse of the header, apart from the look-ups made on its result.
namespace example::detail {

/// A little-endian number from the first sizeof(T) bytes, on a host of either byte order.
template <class T>
T little_endian(const std::byte* bytes) {
  if constexpr (std::is_same_v<T, float>) {
    return __builtin_bit_cast(float, little_endian<std::uint32_t>(bytes));
  } else if constexpr (std::is_same_v<T, double>) {
    return __builtin_bit_cast(double, little_endian<std::uint64_t>(bytes));
  } else {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
    }
    return static_cast<T>(value);
  }
}

/// The string that starts with its length at `bytes`, which has been checked.
std::string_view string_at(const std::byte* bytes);

/// The contents of a file's header; views into the parsed bytes.
struct gguf_header {
  std::map<std::string_view, gguf_value> metadata;
  std::map<std::string_view, gguf_tensor> tensors;
};

/// Parses and checks a whole file. Throws std::runtime_error; `file` stands first in messages.
gguf_header parse_gguf(const std::string& file, std::span<const std::byte> bytes);

}  // namespace example::detail
