// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/host/executor.hpp>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace UNMASK_NAMESPACE::host {

/// A fixed number of threads. The calling thread is the first of them.
///
/// Workers claim pieces one at a time, spin for some microseconds after the last one, then sleep.
/// run() does not wait for a worker that has not woken up in time, so a small job never takes
/// longer than on one thread plus the wake-up call (about a microsecond). run() does not allocate.
///
/// Precondition: one run() at a time; neither another thread nor a piece of work may call it
/// meanwhile.
class thread_pool {
 public:
  /// `threads` >= 1 in total, the calling one included.
  explicit thread_pool(index_t threads) {
    UNMASK_EXPECTS(threads >= 1);
    workers_.reserve(static_cast<std::size_t>(threads - 1));
    try {
      while (concurrency() < threads) {
        workers_.emplace_back([this] { work_until_stopped(); });
      }
    } catch (...) {
      stop();
      throw;
    }
  }
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;
  ~thread_pool() { stop(); }

  /// Number of threads, the calling one included.
  [[nodiscard]] index_t concurrency() const { return static_cast<index_t>(workers_.size()) + 1; }

  /// Calls work(i) once for every 0 <= i < count.
  void run(index_t count, task work) {
    if (count <= 1 || workers_.empty()) {
      serial_executor::run(count, work);
      return;
    }
    work_ = &work;
    count_ = count;
    next_.store(0, std::memory_order_relaxed);
    epoch_.fetch_add(1);  // odd: the job is open
    epoch_.notify_all();
    take_part();
    // A worker increments busy_, then tests whether the job is still open; this function closes
    // the job, then reads busy_. All four operations are sequentially consistent, so either the
    // worker sees a closed job and touches nothing, or this function waits for it.
    epoch_.fetch_add(1);
    for (std::uint32_t busy = busy_.load(); busy != 0; busy = busy_.load()) {
      if (!spin([&] { return busy_.load() == 0; })) {
        busy_.wait(busy);
      }
    }
  }

 private:
  static constexpr int spins = 2000;  // about 20 us

  template <class Condition>
  static bool spin(const Condition& met) {
    for (int i = 0; i < spins; ++i) {
      if (met()) {
        return true;
      }
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
    return false;
  }

  void take_part() noexcept {
    for (index_t i = next_.fetch_add(1); i < count_; i = next_.fetch_add(1)) {
      (*work_)(i);
    }
  }

  void work_until_stopped() noexcept {
    std::uint32_t done = 0;  // the last epoch this thread has seen
    while (true) {
      if (!spin([&] { return epoch_.load() != done; })) {
        epoch_.wait(done);
      }
      busy_.fetch_add(1);
      done = epoch_.load();
      if (stopped_.load()) {
        return;
      }
      if (done % 2 == 1) {
        take_part();
      }
      if (busy_.fetch_sub(1) == 1) {
        busy_.notify_all();
      }
    }
  }

  void stop() {
    stopped_.store(true);
    epoch_.fetch_add(2);
    epoch_.notify_all();
    for (std::thread& worker : workers_) {
      worker.join();
    }
  }

  // On a cache line of its own, so that claiming pieces does not disturb the threads that poll the
  // epoch.
  alignas(64) std::atomic<std::uint32_t> epoch_{0};
  alignas(64) std::atomic<std::uint32_t> busy_{0};
  alignas(64) std::atomic<index_t> next_{0};
  alignas(64) const task* work_ = nullptr;
  index_t count_ = 0;
  std::atomic<bool> stopped_{false};
  std::vector<std::thread> workers_;
};

}  // namespace unmask::host
