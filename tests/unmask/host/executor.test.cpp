// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every piece of work runs once and is finished when run() returns, however the threads race. Meant
// to be run under a thread sanitizer, too.
#include <unmask/host/shared_thread_pool.hpp>
#include <unmask/host/thread_pool.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace unmask::testing::executor_test {
namespace {

using host::executor_ref;
using host::serial_executor;
using host::task;
using host::thread_pool;

static_assert(host::executor<serial_executor>);
static_assert(host::executor<thread_pool>);
static_assert(host::executor<executor_ref>);
static_assert(sizeof(task) == 2 * sizeof(void*));
static_assert(sizeof(executor_ref) <= 3 * sizeof(void*));

// A piece of work that may throw is refused: it would end the program on another thread.
static_assert(!std::is_constructible_v<task, void (&)(index_t)>);
static_assert(std::is_constructible_v<task, void (*&)(index_t) noexcept>);

void expect_each_once(executor_ref threads, index_t count) {
  // Plain numbers on purpose: what the pieces wrote must be visible after run().
  std::vector<int> calls(static_cast<std::size_t>(count), 0);
  const auto work = [&](index_t i) noexcept { ++calls[static_cast<std::size_t>(i)]; };
  threads.run(count, work);
  for (const int n : calls) {
    ASSERT_EQ(n, 1);
  }
}

TEST(serial_executor, runs_each_piece_once) {
  serial_executor here;
  for (const index_t count : {0, 1, 10}) {
    expect_each_once(here, count);
  }
}

TEST(thread_pool, runs_each_piece_once) {
  for (const index_t threads : {1, 2, 3, 8}) {
    thread_pool pool(threads);
    EXPECT_EQ(pool.concurrency(), threads);
    for (int i = 0; i < 500; ++i) {
      for (const index_t count : {0, 1, 2, 3, 17}) {
        expect_each_once(pool, count);
      }
    }
  }
}

TEST(thread_pool, wakes_up_after_a_pause) {
  thread_pool pool(3);
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(i % 4));
    expect_each_once(pool, 100);
  }
}

TEST(thread_pool, uses_its_threads) {
  thread_pool pool(2);
  std::atomic<int> inside{0};
  std::atomic<bool> met{false};
  const auto work = [&](index_t) noexcept {
    ++inside;
    // Two pieces that are under way together, or a minute of waiting for it.
    for (int i = 0; i < 60000 && !met; ++i) {
      met = met || inside == 2;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  pool.run(2, work);
  EXPECT_TRUE(met);
}

TEST(thread_pool, ends_at_once_whatever_it_does) {
  for (int i = 0; i < 200; ++i) {
    thread_pool pool(4);
    if (i % 2 == 0) {
      expect_each_once(pool, i % 7);
    }
  }
}

TEST(thread_pool, may_be_used_from_one_thread_after_another) {
  thread_pool pool(3);
  for (int i = 0; i < 20; ++i) {
    std::thread([&] { expect_each_once(pool, 50); }).join();
  }
}

TEST(shared_thread_pool, takes_calls_of_several_threads_in_turns) {
  const auto pool = host::shared_thread_pool::of(3);
  EXPECT_EQ(pool->concurrency(), 3);
  EXPECT_EQ(pool, host::shared_thread_pool::of(3));
  EXPECT_NE(pool, host::shared_thread_pool::of(2));
  std::vector<std::thread> callers;
  std::atomic<int> wrong = 0;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int again = 0; again < 200; ++again) {
        std::vector<std::atomic<int>> done(17);
        const auto work = [&](index_t i) noexcept { ++done[static_cast<std::size_t>(i)]; };
        host::shared_thread_pool::of(3)->run(17, work);
        for (const std::atomic<int>& count : done) {
          wrong += count == 1 ? 0 : 1;
        }
      }
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  EXPECT_EQ(wrong, 0);
}

TEST(executor_ref, refers_to_an_engine_s_own_threads) {
  struct engine {
    int runs = 0;
    [[nodiscard]] static index_t concurrency() { return 5; }
    void run(index_t count, task work) {
      ++runs;
      serial_executor::run(count, work);
    }
  } threads;
  const executor_ref reference = threads;
  EXPECT_EQ(reference.concurrency(), 5);
  expect_each_once(reference, 9);
  const executor_ref copy = reference;
  expect_each_once(copy, 9);
  EXPECT_EQ(threads.runs, 2);
  expect_each_once(copy, 0);
  EXPECT_EQ(threads.runs, 2) << "an engine's pool is not called without work";
}

TEST(executor_ref, asks_once_how_many_calls_may_run_and_refuses_what_is_no_number_of_calls) {
  struct engine {
    index_t calls = 1;
    [[nodiscard]] index_t concurrency() const { return calls; }
    static void run(index_t count, task work) { serial_executor::run(count, work); }
  };
  for (const index_t calls : {-3, 0, 65537}) {
    engine threads{calls};
    const auto refer = [&threads] { static_cast<void>(executor_ref(threads)); };
    EXPECT_THROW(refer(), std::invalid_argument) << calls;
  }
  engine threads{4};
  const executor_ref reference = threads;
  threads.calls = 400;  // a pool that has grown: memory was allocated for four
  EXPECT_EQ(reference.concurrency(), 4);
}

}  // namespace
}  // namespace unmask::testing::executor_test
