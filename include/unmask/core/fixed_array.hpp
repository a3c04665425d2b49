// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/config.hpp>

#include <cstddef>
#include <new>
#include <type_traits>

namespace UNMASK_NAMESPACE {

namespace detail {

// Owns memory for elements, aligned to a cache line. The same for every type, so that it is
// compiled once.
class block {
 public:
  static constexpr std::align_val_t alignment{64};

  block() = default;
  block(std::size_t size, std::size_t bytes)
      : data_(size == 0 ? nullptr : ::operator new(size * bytes, alignment))
      , size_(size) {}
  block(block&& other) noexcept { swap(other); }
  block& operator=(block&& other) noexcept {
    swap(other);
    return *this;
  }
  ~block() { ::operator delete(data_, alignment); }

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  void swap(block& other) noexcept {
    void* const data = data_;
    const std::size_t size = size_;
    data_ = other.data_;
    size_ = other.size_;
    other.data_ = data;
    other.size_ = size;
  }

  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace detail

/// Blocks of memory, one for each of a fixed number of owners. Each block may be replaced.
class memory_blocks {
 public:
  /// `count` empty blocks.
  explicit memory_blocks(std::size_t count)
      : blocks_(count, sizeof(detail::block)) {
    for (std::size_t i = 0; i < count; ++i) {
      ::new (static_cast<void*>(at(i))) detail::block();
    }
  }
  memory_blocks(memory_blocks&&) = default;             ///< Moves the blocks.
  memory_blocks& operator=(memory_blocks&&) = default;  ///< Moves the blocks.
  ~memory_blocks() {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      at(i)->~block();
    }
  }

  /// Replaces block i by one of `bytes` bytes, aligned to a cache line, and returns its address.
  [[nodiscard]] std::byte* replace(std::size_t i, std::size_t bytes) {
    detail::block fresh(bytes, 1);
    *at(i) = static_cast<detail::block&&>(fresh);
    return static_cast<std::byte*>(at(i)->data());
  }
  /// Bytes of all blocks.
  [[nodiscard]] std::size_t bytes() const {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      sum += at(i)->size();
    }
    return sum;
  }

 private:
  [[nodiscard]] detail::block* at(std::size_t i) const {
    return static_cast<detail::block*>(blocks_.data()) + i;
  }

  detail::block blocks_;
};

/// Elements in host memory whose number is set at construction: what a session allocates. Can be
/// moved, not copied. Unlike std::vector it cannot grow, so that a program compiles little code for
/// each element type.
template <class T>
class fixed_array {
  static_assert(std::is_trivially_copyable_v<T>);
  static_assert(alignof(T) <= static_cast<std::size_t>(detail::block::alignment));

 public:
  /// No elements.
  fixed_array() = default;
  /// Allocates `size` elements T{}.
  explicit fixed_array(std::size_t size)
      : fixed_array(size, [](std::size_t) { return T{}; }) {}
  /// Allocates `size` elements; element i is make(i), in ascending order.
  template <class Make>
  fixed_array(std::size_t size, const Make& make)
      : block_(size, sizeof(T)) {
    for (std::size_t i = 0; i < size; ++i) {
      ::new (static_cast<void*>(data() + i)) T(make(i));
    }
  }

  /// The first element; null if there is none.
  [[nodiscard]] T* data() { return static_cast<T*>(block_.data()); }
  /// The first element; null if there is none.
  [[nodiscard]] const T* data() const { return static_cast<const T*>(block_.data()); }
  /// Number of elements.
  [[nodiscard]] std::size_t size() const { return block_.size(); }
  /// Element i.
  [[nodiscard]] T& operator[](std::size_t i) { return data()[i]; }
  /// Element i.
  [[nodiscard]] const T& operator[](std::size_t i) const { return data()[i]; }
  /// The first element.
  [[nodiscard]] T* begin() { return data(); }
  /// The end after the last element.
  [[nodiscard]] T* end() { return data() + size(); }
  /// The first element.
  [[nodiscard]] const T* begin() const { return data(); }
  /// The end after the last element.
  [[nodiscard]] const T* end() const { return data() + size(); }

 private:
  detail::block block_;
};

}  // namespace unmask
