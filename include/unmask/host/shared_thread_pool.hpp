// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/host/thread_pool.hpp>

#include <map>
#include <memory>
#include <mutex>

namespace UNMASK_NAMESPACE::host {

/// A thread_pool for sessions on several threads, whose steps take turns: an executor that any
/// number of sessions may have. Cost beyond a thread_pool's: a lock for each step.
class shared_thread_pool {
 public:
  /// Starts the threads; `threads` includes the calling one.
  explicit shared_thread_pool(index_t threads)
      : pool_(threads) {}

  /// Number of threads, the calling one included.
  [[nodiscard]] index_t concurrency() const { return pool_.concurrency(); }
  /// Calls work(i) once for every 0 <= i < count, after the calls of other threads before it.
  void run(index_t count, task work) {
    const std::lock_guard turn(mutex_);
    pool_.run(count, work);
  }

  /// The pool of `threads` threads of this program, which lives as long as a handle to it.
  [[nodiscard]] static std::shared_ptr<shared_thread_pool> of(index_t threads) {
    static std::mutex mutex;
    static std::map<index_t, std::weak_ptr<shared_thread_pool>> pools;
    const std::lock_guard turn(mutex);
    std::shared_ptr<shared_thread_pool> pool = pools[threads].lock();
    if (pool == nullptr) {
      pools[threads] = pool = std::make_shared<shared_thread_pool>(threads);
    }
    return pool;
  }

 private:
  std::mutex mutex_;
  thread_pool pool_;
};

}  // namespace unmask::host
