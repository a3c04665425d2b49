// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Replaces operator new by one that counts, for the whole program: one file of a program may
/// include this.

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace unmask::testing {

/// Calls of operator new on any thread.
inline std::atomic<long> allocations{0};

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
  const std::size_t whole = (size + alignment - 1) / alignment * alignment;
  void* const p = std::aligned_alloc(alignment, whole == 0 ? alignment : whole);
  if (p == nullptr) {
    throw std::bad_alloc();
  }
  return p;
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
  return unmask::testing::detail::counted(size, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return unmask::testing::detail::counted(size, alignof(std::max_align_t));
}
[[gnu::noinline]] void operator delete(void* p) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete[](void* p) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete[](void* p, std::size_t) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete[](void* p, std::align_val_t) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete[](void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, const std::nothrow_t&) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete[](void* p, const std::nothrow_t&) noexcept {
  std::free(p);
}

#endif
