// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/core/types.hpp>

#include <concepts>
#include <type_traits>

namespace UNMASK_NAMESPACE::host {

/// A reference to a function object `void(index_t) noexcept`: two pointers, no allocation. Valid as
/// long as the function object is.
class task {
 public:
  /// A reference to `function`.
  template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, task>) &&
                std::is_nothrow_invocable_v<F&, index_t>
  task(F& function)  // NOLINT(google-explicit-constructor): a reference, like any other
      : object_(const_cast<void*>(static_cast<const void*>(__builtin_addressof(function))))
      , call_([](void* object, index_t i) noexcept { (*static_cast<F*>(object))(i); }) {}

  /// Calls the function.
  void operator()(index_t i) const noexcept { call_(object_, i); }

 private:
  void* object_;
  void (*call_)(void*, index_t) noexcept;
};

/// Runs independent pieces of work on any threads.
///
/// `run(count, work)` with count >= 1 calls work(i) once for every 0 <= i < count and returns when
/// all calls have returned; their writes are then visible to the caller. `concurrency()`, in [1,
/// 65536], is the number of calls that may run at a time. A session reads it once, when it is made.
/// It determines the size of the pieces, never a result.
///
/// Errors: std::invalid_argument for another concurrency().
///
/// An engine can pass its own threads in five lines:
///
///     struct engine_executor {
///       engine::pool& pool;
///       index_t concurrency() const { return pool.size(); }
///       void run(index_t count, host::task work) { pool.parallel_for(0, count, work); }
///     };
template <class E>
concept executor = requires(E& e, index_t count, task work) {
  { e.concurrency() } -> std::convertible_to<index_t>;
  e.run(count, work);
};

/// Runs all calls on the calling thread.
struct serial_executor {
  /// One call at a time.
  [[nodiscard]] static constexpr index_t concurrency() { return 1; }
  /// Calls work(0) to work(count - 1), one after the other.
  static void run(index_t count, task work) {
    for (index_t i = 0; i < count; ++i) {
      work(i);
    }
  }
};

/// A reference to any executor, so that the backend is not a template on its type. Does not
/// allocate; valid as long as the executor is.
class executor_ref {
 public:
  /// The calling thread only.
  executor_ref()
      : executor_ref(serially()) {}

  /// A reference to `e`. Reads e.concurrency() here, and never again.
  template <executor E>
    requires(!std::same_as<std::remove_cvref_t<E>, executor_ref>)
  executor_ref(E& e)  // NOLINT(google-explicit-constructor): a reference, like any other
      : object_(const_cast<void*>(static_cast<const void*>(__builtin_addressof(e))))
      , concurrency_(checked(static_cast<index_t>(e.concurrency())))
      , run_([](void* object, index_t count, task work) {
        static_cast<E*>(object)->run(count, work);
      }) {}

  /// Number of calls that may run at a time.
  [[nodiscard]] index_t concurrency() const { return concurrency_; }
  /// Calls work(i) once for every 0 <= i < count; without any, the executor is not called.
  void run(index_t count, task work) const {
    if (count > 0) {
      run_(object_, count, work);
    }
  }

 private:
  static constexpr index_t most_concurrency = 65536;
  [[nodiscard]] static index_t checked(index_t concurrency) {
    check_argument(concurrency >= 1 && concurrency <= most_concurrency,
                   "concurrency() of the executor",
                   concurrency,
                   "in [1, 65536]");
    return concurrency;
  }
  [[nodiscard]] static serial_executor& serially() {
    static serial_executor stateless;
    return stateless;
  }

  void* object_;
  index_t concurrency_;
  void (*run_)(void*, index_t, task);
};

}  // namespace unmask::host
