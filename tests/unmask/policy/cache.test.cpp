// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// When a cache refreshes, from its plan alone: the decodes are in layers/caches.
#include <unmask/policy/cache/cache.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace unmask::testing::cache_test {
namespace {

TEST(every, is_true_once_in_a_period) {
  for (index_t period = -1; period <= 4; ++period) {
    for (index_t count = 0; count <= 9; ++count) {
      bool expected = false;
      for (index_t due = 0; period > 0 && due <= count; due += period) {
        expected = due == count;
      }
      EXPECT_EQ(detail::every(period, count), expected) << period << " " << count;
    }
  }
}

}  // namespace
}  // namespace unmask::testing::cache_test
