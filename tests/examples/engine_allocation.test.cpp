// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "engine/llada.hpp"
#include "engine_files.hpp"
#include "support/count_allocations.hpp"

namespace example::engine_allocation_test {
namespace {

TEST(engine, a_warm_forward_does_not_allocate) {
  llada_model model(gguf_file(testing::weights_path()));
  const std::vector<std::int32_t> longer(90, 5), shorter(33, 7);
  const sequence_window large[] = {{longer, 0, 90}, {longer, 50, 90}};
  const sequence_window small[] = {{shorter, 0, 33}, {longer, 70, 90}, {longer, 0, 1}};
  const float* data = model.forward(large).data;
  EXPECT_GT(unmask::testing::allocations, 0);
  const unmask::testing::allocation_count count;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(model.forward(small).data, data);
    EXPECT_EQ(model.forward(large).data, data);
    EXPECT_EQ(model.forward(shorter, 3, 9).data, data);
  }
  EXPECT_EQ(count.value(), 0);
}

}  // namespace
}  // namespace example::engine_allocation_test
