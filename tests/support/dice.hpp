// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Random choices that are the same on every machine and with every standard library.

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace unmask::testing {

/// A hash of 64 bits in which every bit of the input moves every bit of the output.
[[nodiscard]] constexpr std::uint64_t mixed(std::uint64_t z) {
  z += 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

/// A hash of a sequence of numbers.
template <class... More>
[[nodiscard]] constexpr std::uint64_t
mixed(std::uint64_t first, std::uint64_t second, More... more) {
  return mixed(mixed(first) + second, more...);
}

/// A number in [0, 1) with 24 bits.
[[nodiscard]] constexpr double unit(std::uint64_t hash) {
  return static_cast<double>(hash >> 40U) * 0x1p-24;
}

/// A stream of random choices.
class dice {
 public:
  explicit dice(std::uint64_t seed)
      : state_(mixed(seed)) {}
  /// Choices that follow from bytes, two for each, and behind their end from nothing: for a fuzzer,
  /// which changes single choices when it changes bytes. The bytes must outlive it.
  explicit dice(std::span<const std::uint8_t> bytes)
      : state_(mixed(0))
      , bytes_(bytes) {}

  [[nodiscard]] std::uint64_t bits() {
    if (bytes_.size() >= 2) {
      const auto choice = static_cast<std::uint64_t>(bytes_[0] + 256 * bytes_[1]);
      bytes_ = bytes_.subspan(2);
      return mixed(choice);
    }
    state_ += step_;
    return mixed(state_);
  }
  /// A whole number in [first, last], both included.
  [[nodiscard]] std::int32_t within(std::int32_t first, std::int32_t last) {
    const auto width = static_cast<std::uint64_t>(last - first) + 1;
    return first + static_cast<std::int32_t>(bits() % width);
  }
  /// A real number in [low, high).
  [[nodiscard]] float real(double low, double high) {
    return static_cast<float>(std::fma(high - low, unit(bits()), low));  // or compilers choose
  }
  [[nodiscard]] bool chance(double probability) { return unit(bits()) < probability; }
  template <class T>
  [[nodiscard]] const T& one_of(const std::vector<T>& choices) {
    return choices[bits() % choices.size()];
  }
  /// 0 .. count - 1 in a random order.
  [[nodiscard]] std::vector<std::int32_t> permutation(std::int32_t count) {
    std::vector<std::int32_t> order;
    permute(count, order);
    return order;
  }
  void permute(std::int32_t count, std::vector<std::int32_t>& order) {
    order.resize(static_cast<std::size_t>(count));
    for (std::int32_t i = 0; i < count; ++i) {
      std::int32_t& other = order[static_cast<std::size_t>(within(0, i))];
      order[static_cast<std::size_t>(i)] = other;
      other = i;
    }
  }

 protected:
  dice(std::uint64_t state, std::uint64_t step)
      : state_(state)
      , step_(step) {}

 private:
  std::uint64_t state_;
  std::uint64_t step_ = 1;
  std::span<const std::uint8_t> bytes_ = {};
};

}  // namespace unmask::testing
