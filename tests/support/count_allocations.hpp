// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Replaces operator new by one that counts, and that fails when it is told to, for the whole
/// program: one file of a program may include this.

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace unmask::testing {

/// Calls of operator new on any thread.
inline std::atomic<long> allocations{0};

/// Blocks of memory that are not deleted yet.
inline std::atomic<long> live_allocations{0};
/// Number of the next allocation that fails, counted from 0 at the next call; none if negative.
inline std::atomic<long> failing_allocation{-1};

/// Calls of operator new since it was made.
class allocation_count {
 public:
  [[nodiscard]] long value() const { return allocations.load() - before_; }

 private:
  long before_ = allocations.load();
};

// Clang's thread sanitizer replaces operator new itself.
#if defined(__has_feature)
#  if __has_feature(thread_sanitizer)
#    define UNMASK_TEST_CANNOT_COUNT
#  endif
#endif
#if defined(UNMASK_TEST_CANNOT_COUNT)
inline constexpr bool counts_allocations = false;
#else
inline constexpr bool counts_allocations = true;
#endif

namespace detail {

inline void* counted(std::size_t size, std::size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (failing_allocation.load(std::memory_order_relaxed) >= 0 &&
      failing_allocation.fetch_sub(1, std::memory_order_relaxed) == 0) {
    throw std::bad_alloc();
  }
  const std::size_t whole = (size + alignment - 1) / alignment * alignment;
  void* const p = std::aligned_alloc(alignment, whole == 0 ? alignment : whole);
  if (p == nullptr) {
    throw std::bad_alloc();
  }
  live_allocations.fetch_add(1, std::memory_order_relaxed);
  return p;
}

inline void freed(void* p) noexcept {
  live_allocations.fetch_sub(p != nullptr ? 1 : 0, std::memory_order_relaxed);
  std::free(p);
}

}  // namespace detail
}  // namespace unmask::testing

#if !defined(UNMASK_TEST_CANNOT_COUNT)

// Every form, since a sanitizer brings its own for those that are left out. Not inlined: g++ would
// warn of a free() of what came from `new`.
[[gnu::noinline]] void* operator new(std::size_t size) {
  return unmask::testing::detail::counted(size, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new[](std::size_t size) {
  return unmask::testing::detail::counted(size, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  return unmask::testing::detail::counted(size, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void* operator new[](std::size_t size, std::align_val_t alignment) {
  return unmask::testing::detail::counted(size, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return unmask::testing::detail::counted(size, alignof(std::max_align_t));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
[[gnu::noinline]] void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return operator new(size, std::nothrow);
}
[[gnu::noinline]] void operator delete(void* p) noexcept {
  unmask::testing::detail::freed(p);
}
[[gnu::noinline]] void operator delete[](void* p) noexcept {
  unmask::testing::detail::freed(p);
}
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept {
  unmask::testing::detail::freed(p);
}
[[gnu::noinline]] void operator delete[](void* p, std::size_t) noexcept {
  unmask::testing::detail::freed(p);
}
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept {
  unmask::testing::detail::freed(p);
}
[[gnu::noinline]] void operator delete[](void* p, std::align_val_t) noexcept {
  unmask::testing::detail::freed(p);
}
[[gnu::noinline]] void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  unmask::testing::detail::freed(p);
}
[[gnu::noinline]] void operator delete[](void* p, std::size_t, std::align_val_t) noexcept {
  unmask::testing::detail::freed(p);
}
[[gnu::noinline]] void operator delete(void* p, const std::nothrow_t&) noexcept {
  unmask::testing::detail::freed(p);
}
[[gnu::noinline]] void operator delete[](void* p, const std::nothrow_t&) noexcept {
  unmask::testing::detail::freed(p);
}

#endif
