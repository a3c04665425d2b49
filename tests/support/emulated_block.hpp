// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// A thread block on the host: every thread is a fiber, and all of them run on the calling thread.
///
/// Fibers change places only at barriers, in an order drawn from a seed, so a run can be repeated,
/// and a body with a missing barrier reads, under some seed, a value that was not yet written. What
/// changes places is compiled once, and optimised: emulated_block.cpp.

#include <unmask/cuda/thread_block.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <setjmp.h>
#include <stdexcept>
#include <ucontext.h>
#include <vector>

#include "support/dice.hpp"

#if defined(__SANITIZE_ADDRESS__)
#  define UNMASK_TESTING_ASAN 1
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer)
#    define UNMASK_TESTING_ASAN 1
#  endif
#endif
#if defined(__SANITIZE_THREAD__)
#  define UNMASK_TESTING_TSAN 1
#elif defined(__has_feature)
#  if __has_feature(thread_sanitizer)
#    define UNMASK_TESTING_TSAN 1
#  endif
#endif

namespace unmask::testing {

namespace fibers {

/// A stack of its own and the place where it stopped. Every switch is reported to the sanitizers.
class fiber {
 public:
  fiber()
      : stack_(std::make_unique_for_overwrite<std::byte[]>(stack_bytes)) {}
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;
  ~fiber();

  /// Lets the fiber begin `body` when it is resumed first.
  void prepare(std::function<void()> body);

  /// Runs the fiber until it pauses or ends.
  void resume();

  /// Returns to the fiber that resumed this one; called by this fiber.
  void pause() { leave(false); }

  [[nodiscard]] bool done() const { return done_; }

 private:
  static constexpr std::size_t stack_bytes = std::size_t{256} * 1024;

  static void enter(unsigned low, unsigned high);
  void leave(bool for_good);

  std::unique_ptr<std::byte[]> stack_;
  std::function<void()> body_;
  ucontext_t here_{};
  ucontext_t caller_{};
  jmp_buf here_jump_{};
  jmp_buf caller_jump_{};
  bool begun_ = false;
  bool done_ = true;
#if defined(UNMASK_TESTING_ASAN)
  const void* caller_stack_ = nullptr;
  std::size_t caller_stack_bytes_ = 0;
#endif
#if defined(UNMASK_TESTING_TSAN)
  void* tsan_ = nullptr;
  void* tsan_caller_ = nullptr;
#endif
};

}  // namespace fibers

/// Makes emulated kernels count numbers below 2^-126 as zero while it lives, as -use_fast_math does
/// on a device. Where the processor cannot, it does nothing.
class flushing_kernels {
 public:
  explicit flushing_kernels(bool flush = true)
      : before_(wanted()) {
    wanted() = flush;
  }
  flushing_kernels(const flushing_kernels&) = delete;
  flushing_kernels& operator=(const flushing_kernels&) = delete;
  ~flushing_kernels() { wanted() = before_; }

  [[nodiscard]] static bool& wanted() {
    thread_local bool flush = false;
    return flush;
  }

 private:
  bool before_;
};

/// Lets the calling thread's processor do so.
class flushed_subnormals {
 public:
  explicit flushed_subnormals(bool flush)
      : before_(control()) {
    set_control(flush ? before_ | bits : before_);
  }
  flushed_subnormals(const flushed_subnormals&) = delete;
  flushed_subnormals& operator=(const flushed_subnormals&) = delete;
  ~flushed_subnormals() { set_control(before_); }

 private:
#if defined(__x86_64__)
  static constexpr unsigned bits = 0x8040;  // results, operands
  [[nodiscard]] static unsigned control() { return __builtin_ia32_stmxcsr(); }
  static void set_control(unsigned x) { __builtin_ia32_ldmxcsr(x); }
#elif defined(__aarch64__)
  static constexpr unsigned long bits = 1UL << 24U;
  [[nodiscard]] static unsigned long control() {
    unsigned long x = 0;
    asm volatile("mrs %0, fpcr" : "=r"(x));
    return x;
  }
  static void set_control(unsigned long x) { asm volatile("msr fpcr, %0" : : "r"(x)); }
#else
  static constexpr unsigned bits = 0;
  [[nodiscard]] static unsigned control() { return 0; }
  static void set_control(unsigned) {}
#endif

  decltype(control()) before_;
};

class emulated_block;

/// The threads of one block; runs one body after the other. Allocates once.
class block_emulator {
 public:
  /// Any number of threads; the last warp may be incomplete, and may then not shuffle.
  explicit block_emulator(index_t threads, std::uint64_t seed = 0)
      : seed_(seed)
      , threads_(static_cast<std::size_t>(threads))
      , warps_(
            static_cast<std::size_t>((threads + device::warp_threads - 1) / device::warp_threads)) {
    for (auto& t : threads_) {
      t = std::make_unique<thread>();
    }
    everyone_.expected = threads;
    told_.fill(std::vector<std::uint64_t>(threads_.size()));
    for (index_t i = 0; i < threads; ++i) {
      ++warps_[static_cast<std::size_t>(i / device::warp_threads)].all.expected;
    }
  }

  [[nodiscard]] index_t threads() const { return static_cast<index_t>(threads_.size()); }

  /// Runs body(const emulated_block&) in every thread. Throws what a thread throws, and
  /// std::logic_error when a barrier waits for a thread that never comes.
  template <class Body>
  void run(const Body& body) {
    begin(body);
    while (advance()) {
    }
  }

  /// Prepares every thread to run `body`, which lives until they have ended.
  template <class Body>
  void begin(const Body& body);

  /// Runs every thread that can to its next barrier or its end; false when all have ended. Throws
  /// as run().
  bool advance();

 private:
  friend class emulated_block;

  struct barrier {
    index_t expected = 0;
    index_t arrived = 0;
    std::uint64_t opened = 0;
  };
  struct warp {
    barrier all;
    std::array<std::array<std::uint32_t, device::warp_threads>, 2> box{};
  };
  struct thread {
    fibers::fiber fiber;
    const barrier* waits_at = nullptr;
    std::uint64_t until = 0;
    unsigned shuffles = 0;
    unsigned questions = 0;

    [[nodiscard]] bool blocked() const { return waits_at != nullptr && waits_at->opened < until; }
  };

  [[nodiscard]] thread& at(index_t i) { return *threads_[static_cast<std::size_t>(i)]; }

  void wait(index_t i, barrier& b);

  std::uint64_t seed_;
  std::size_t running_ = 0;
  std::vector<std::unique_ptr<thread>> threads_;
  std::vector<warp> warps_;
  std::vector<index_t> order_;
  barrier everyone_;
  // Two in turn, as a warp's boxes: each thread's value for the others.
  std::array<std::vector<std::uint64_t>, 2> told_;
  std::exception_ptr failure_;
};

/// One emulated thread's view of its block.
class emulated_block {
 public:
  emulated_block(block_emulator& all, index_t thread)
      : all_(&all)
      , thread_(thread) {}

  [[nodiscard]] index_t lane() const { return thread_; }
  [[nodiscard]] index_t lanes() const { return all_->threads(); }
  void sync() const { all_->wait(thread_, all_->everyone_); }

  [[nodiscard]] lane_count count(bool yes) const { return exclusive_sum<index_t>(yes ? 1 : 0); }
  template <class N>
  [[nodiscard]] lane_sum<N> exclusive_sum(N x) const {
    lane_sum<N> sum;
    for (index_t i = 0; const std::uint64_t said : asked(static_cast<std::uint64_t>(x))) {
      sum.before += i++ < thread_ ? static_cast<N>(said) : 0;
      sum.all += static_cast<N>(said);
    }
    return sum;
  }
  [[nodiscard]] std::uint64_t any(std::uint64_t bits) const {
    std::uint64_t all = 0;
    for (const std::uint64_t said : asked(bits)) {
      all |= said;
    }
    return all;
  }

  [[nodiscard]] index_t warp() const { return thread_ / device::warp_threads; }
  [[nodiscard]] index_t warps() const { return lanes() / device::warp_threads; }
  [[nodiscard]] index_t warp_lane() const { return thread_ % device::warp_threads; }
  template <class T>
  [[nodiscard]] T shuffle_xor(T x, index_t mask) const {
    return shuffle(x, warp_lane() ^ mask);
  }
  template <class T>
  [[nodiscard]] T shuffle(T x, index_t from) const {
    static_assert(sizeof(T) == sizeof(std::uint32_t));
    auto& warp = all_->warps_[static_cast<std::size_t>(this->warp())];
    // Two boxes in turn: a fast thread may already fill the next one.
    auto& box = warp.box[all_->at(thread_).shuffles++ % 2];
    std::memcpy(&box[static_cast<std::size_t>(warp_lane())], &x, sizeof x);
    all_->wait(thread_, warp.all);
    T result;
    std::memcpy(&result, &box[static_cast<std::size_t>(from)], sizeof result);
    return result;
  }
  [[nodiscard]] std::uint32_t ballot(bool x) const {
    auto& warp = all_->warps_[static_cast<std::size_t>(this->warp())];
    auto& box = warp.box[all_->at(thread_).shuffles++ % 2];
    box[static_cast<std::size_t>(warp_lane())] = x ? 1U : 0U;
    all_->wait(thread_, warp.all);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < box.size(); ++i) {
      bits |= box[i] << i;
    }
    return bits;
  }
  std::uint32_t add(std::uint32_t* sum, std::uint32_t x) const {
    const std::uint32_t before = *sum;
    *sum += x;
    return before;
  }
  void add(std::uint64_t* sum, std::uint64_t x) const { *sum += x; }
  void sync_warp() const {
    all_->wait(thread_, all_->warps_[static_cast<std::size_t>(warp())].all);
  }
  // All blocks are emulated by one thread of the host.
  [[nodiscard]] std::uint32_t take_ticket(std::uint32_t* counter) const { return (*counter)++; }
  void publish(std::uint32_t* where, std::uint32_t x) const {
    __atomic_store_n(where, x, __ATOMIC_RELAXED);
  }

 private:
  // The arguments of all threads.
  [[nodiscard]] const std::vector<std::uint64_t>& asked(std::uint64_t own) const {
    auto& told = all_->told_[all_->at(thread_).questions++ % 2];
    told[static_cast<std::size_t>(thread_)] = own;
    sync();
    return told;
  }

  block_emulator* all_;
  index_t thread_;
};
static_assert(device::thread_block<emulated_block>);

template <class Body>
void block_emulator::begin(const Body& body) {
  const flushed_subnormals state(flushing_kernels::wanted());  // fibers inherit it
  failure_ = nullptr;
  running_ = threads_.size();
  everyone_.arrived = 0;
  for (warp& w : warps_) {
    w.all.arrived = 0;
  }
  for (index_t i = 0; i < threads(); ++i) {
    at(i).waits_at = nullptr;
    at(i).shuffles = 0;
    at(i).questions = 0;
    at(i).fiber.prepare([this, i, &body] {
      try {
        body(emulated_block(*this, i));
      } catch (...) {
        failure_ = std::current_exception();
      }
    });
  }
}

/// Runs the blocks of a grid in an order of the dice, up to three at a time, which take turns at
/// barriers, often or seldom: as on a device with several multiprocessors. body_of(i) returns the
/// body of block i, which holds the block's shared memory.
void emulate_grid(index_t blocks, index_t threads, dice& order, const auto& body_of) {
  struct place {
    block_emulator emulator;
    std::function<void(const emulated_block&)> body;
  };
  const std::vector<index_t> turns = order.permutation(blocks);
  auto next = turns.begin();
  std::vector<std::unique_ptr<place>> running;
  for (index_t n = std::min(order.within(1, 3), blocks); n > 0; --n) {
    running.push_back(std::make_unique<place>(block_emulator(threads, order.bits()), nullptr));
  }
  const double turn = order.one_of<double>({1, 0.1, 0.01});
  for (std::size_t i = 0; !running.empty();) {
    if (i >= running.size() || order.chance(turn)) {
      i = static_cast<std::size_t>(order.bits() % running.size());
    }
    place& at = *running[i];
    if (at.body == nullptr && next != turns.end()) {
      at.body = body_of(*next++);
      at.emulator.begin(at.body);
    }
    if (at.body == nullptr) {
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
    } else if (!at.emulator.advance()) {
      at.body = nullptr;
    }
  }
}

}  // namespace unmask::testing
