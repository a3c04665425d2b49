// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A pass through the layers allocates nothing.

#include <unmask/host/key_selector.hpp>
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

namespace {

// Calls of operator new on any thread.
std::atomic<long> allocations{0};

void* counted(std::size_t size, std::size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  const std::size_t whole = (size + alignment - 1) / alignment * alignment;
  void* const p = std::aligned_alloc(alignment, whole == 0 ? alignment : whole);
  if (p == nullptr) {
    throw std::bad_alloc();
  }
  return p;
}

}  // namespace

// Every form, since a sanitizer brings its own for those that are left out.
void* operator new(std::size_t size) {
  return counted(size, alignof(std::max_align_t));
}
void* operator new[](std::size_t size) {
  return counted(size, alignof(std::max_align_t));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return counted(size, alignof(std::max_align_t));
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return counted(size, alignof(std::max_align_t));
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete[](void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}
void operator delete[](void* p, std::size_t) noexcept {
  std::free(p);
}
void operator delete(void* p, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete[](void* p, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete(void* p, const std::nothrow_t&) noexcept {
  std::free(p);
}
void operator delete[](void* p, const std::nothrow_t&) noexcept {
  std::free(p);
}

namespace unmask::testing {
namespace {

constexpr index_t length = 40;
constexpr index_t width = 33;
constexpr index_t vocab = 9;
constexpr index_t layers = 4;

/// Decodes with given features and logits; returns the allocations between start() and the end.
template <class Policy>
long allocations_of(const Policy& p) {
  std::vector<token_id> tokens(length, vocab - 1);
  std::vector<float> hidden(length * width, 1.0F);
  std::vector<float> stored(layers * length * width, 0.5F);
  std::vector<float> logits(length * vocab);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = static_cast<float>(i * 7 % 11);
  }
  layer_session session(p,
                        model_info{.vocab = vocab, .mask_token = vocab - 1, .layers = layers},
                        tokens,
                        layout{.prompt = 5, .length = length, .block_length = 12});
  const long before = allocations.load();
  while (const auto request = session.next()) {
    auto pass = session.pass(0);
    for (index_t l = 0; l < layers; ++l) {
      if (pass.hooks(l)) {
        hidden[static_cast<std::size_t>(l)] += 1.0F;
        static_cast<void>(pass.at_layer(
            l,
            host_hidden<float>(hidden.data(), static_cast<index_t>(pass.positions().size()), width),
            host_state<float>(stored.data() + l * length * width, length, width)));
      }
    }
    session.read(
        0, host_logits<float>(logits.data(), static_cast<index_t>(pass.rows().size()), vocab));
    session.decide();
  }
  return allocations.load() - before;
}

TEST(LayerAllocation, NoneInAPass) {
  EXPECT_EQ(allocations_of(policy{
                by_confidence{}, top_k{2}, early_skip{}, block_cache{5, 2}, trace_credit<8>{}}),
            0);
  EXPECT_EQ(
      allocations_of(policy{
          by_confidence{}, top_k{2}, cache_budget{.budget = 5}, delayed_cache{3}, key_eviction{}}),
      0);
}

TEST(LayerAllocation, NoneInASelectionOfKeys) {
  host::key_selector selector(64);
  const std::vector<float> scores(64, 1.0F);
  const long before = allocations.load();
  EXPECT_EQ(selector.select(scores, {10, 20}, 0.5, 3).size(), 27U);
  EXPECT_EQ(allocations.load(), before);
}

}  // namespace
}  // namespace unmask::testing
