// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

#include "engine/llada.hpp"
#include "engine_files.hpp"

// These replace the operators of the whole program, so no other test of the same program may.
namespace {
std::atomic<std::size_t> allocations = 0;
}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) {
    return memory;
  }
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace example {
namespace {

TEST(engine, a_warm_forward_does_not_allocate) {
  llada_model model(gguf_file(testing::weights_path("q8_0")));
  const std::vector<std::int32_t> longer(90, 5), shorter(33, 7);
  const sequence_window large[] = {{longer, 0, 90}, {longer, 50, 90}};
  const sequence_window small[] = {{shorter, 0, 33}, {longer, 70, 90}, {longer, 0, 1}};
  const float* data = model.forward(large).data;
  const std::size_t before = allocations;
  EXPECT_GT(before, 0U);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(model.forward(small).data, data);
    EXPECT_EQ(model.forward(large).data, data);
    EXPECT_EQ(model.forward(shorter, 3, 9).data, data);
  }
  EXPECT_EQ(allocations, before);
}

}  // namespace
}  // namespace example
