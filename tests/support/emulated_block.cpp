// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/emulated_block.hpp"

#if defined(UNMASK_TESTING_ASAN)
#  include <sanitizer/common_interface_defs.h>
#endif
#if defined(UNMASK_TESTING_TSAN)
extern "C" {
void* __tsan_get_current_fiber(void);
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
}
#endif

namespace unmask::testing {
namespace fibers {
namespace {

// swapcontext() reads the signal mask from the kernel twice; a jump does not, which makes the
// tests ten times as fast. The sanitizers have ideas of their own about jumps.
#if defined(UNMASK_TESTING_ASAN) || defined(UNMASK_TESTING_TSAN)
constexpr bool swaps_contexts = true;
#else
constexpr bool swaps_contexts = false;
#endif

}  // namespace

fiber::~fiber() {
#if defined(UNMASK_TESTING_TSAN)
  if (tsan_ != nullptr) {
    __tsan_destroy_fiber(tsan_);
  }
#endif
}

void fiber::prepare(std::function<void()> body) {
  body_ = std::move(body);
  done_ = false;
  begun_ = false;
  getcontext(&here_);
  here_.uc_stack.ss_sp = stack_.get();
  here_.uc_stack.ss_size = stack_bytes;
  here_.uc_link = nullptr;
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  makecontext(&here_,
              reinterpret_cast<void (*)()>(&fiber::enter),
              2,
              static_cast<unsigned>(self),
              static_cast<unsigned>(self >> 32U));
#if defined(UNMASK_TESTING_TSAN)
  if (tsan_ == nullptr) {
    tsan_ = __tsan_create_fiber(0);
  }
#endif
}

void fiber::resume() {
#if defined(UNMASK_TESTING_TSAN)
  tsan_caller_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(tsan_, 0);
#endif
#if defined(UNMASK_TESTING_ASAN)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, stack_.get(), stack_bytes);
#endif
  if (swaps_contexts || !begun_) {
    begun_ = true;
    if (swaps_contexts || _setjmp(caller_jump_) == 0) {
      swapcontext(&caller_, &here_);
    }
  } else if (_setjmp(caller_jump_) == 0) {
    _longjmp(here_jump_, 1);
  }
#if defined(UNMASK_TESTING_ASAN)
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

void fiber::enter(unsigned low, unsigned high) {
  auto* const self = reinterpret_cast<fiber*>(std::uintptr_t{low} | (std::uintptr_t{high} << 32U));
#if defined(UNMASK_TESTING_ASAN)
  __sanitizer_finish_switch_fiber(nullptr, &self->caller_stack_, &self->caller_stack_bytes_);
#endif
  self->body_();
  self->done_ = true;
  self->leave(true);
}

void fiber::leave([[maybe_unused]] bool for_good) {
#if defined(UNMASK_TESTING_TSAN)
  __tsan_switch_to_fiber(tsan_caller_, 0);
#endif
#if defined(UNMASK_TESTING_ASAN)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(for_good ? nullptr : &fake, caller_stack_, caller_stack_bytes_);
#endif
  if (swaps_contexts) {
    swapcontext(&here_, &caller_);
  } else if (_setjmp(here_jump_) == 0) {
    _longjmp(caller_jump_, 1);
  }
#if defined(UNMASK_TESTING_ASAN)
  __sanitizer_finish_switch_fiber(fake, &caller_stack_, &caller_stack_bytes_);
#endif
}

}  // namespace fibers

void block_emulator::wait(index_t i, barrier& b) {
  thread& me = at(i);
  me.waits_at = &b;
  me.until = b.opened + 1;
  if (++b.arrived == b.expected) {
    b.arrived = 0;
    ++b.opened;
  }
  me.fiber.pause();
  me.waits_at = nullptr;
}

bool block_emulator::advance() {
  const flushed_subnormals state(flushing_kernels::wanted());  // a jump leaves it as it is
  bool moved = false;
  dice order(seed_ = mixed(seed_));
  order.permute(threads(), order_);
  for (const index_t i : order_) {
    thread& t = at(i);
    while (!t.fiber.done() && !t.blocked()) {
      moved = true;
      t.fiber.resume();
      running_ -= t.fiber.done() ? 1 : 0;
    }
  }
  if (failure_ != nullptr && (running_ == 0 || !moved)) {
    std::rethrow_exception(failure_);  // a thread that threw does not reach its barriers
  }
  if (running_ > 0 && !moved) {
    throw std::logic_error("a barrier that not every thread of the block reaches");
  }
  return running_ > 0;
}

}  // namespace unmask::testing
