// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace unmask::testing {

/// A copy of an argument that lives as long as the contract of a call asks for, and no longer: it
/// is overwritten, then freed. Where it is read afterwards a test sees other values, and a
/// sanitizer stops it.
template <class T>
class lent {
 public:
  static_assert(std::is_trivially_copyable_v<T>);

  explicit lent(std::span<const T> of)
      : memory_(of.begin(), of.end()) {}
  explicit lent(const std::vector<T>& of)
      : lent(std::span<const T>(of)) {}
  explicit lent(const T& one)
      : lent(std::span<const T>(&one, 1)) {}
  /// Characters with a NUL behind them.
  explicit lent(std::string_view text)
    requires std::is_same_v<T, char>
      : memory_(text.begin(), text.end()) {
    memory_.push_back('\0');
  }
  lent(const lent&) = delete;
  lent& operator=(const lent&) = delete;
  ~lent() {
    volatile unsigned char* const bytes = reinterpret_cast<unsigned char*>(memory_.data());
    for (std::size_t i = 0; i < memory_.size() * sizeof(T); ++i) {
      bytes[i] = 0xA5;
    }
  }

  [[nodiscard]] T* data() { return memory_.data(); }
  [[nodiscard]] std::span<T> span() { return memory_; }
  [[nodiscard]] std::vector<T> copy() const { return memory_; }

 private:
  std::vector<T> memory_;
};

}  // namespace unmask::testing
