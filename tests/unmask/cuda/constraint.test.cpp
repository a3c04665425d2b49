// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sessions with constraints on a device beside sessions on the host.
#include <gtest/gtest.h>

#include "support/constraints_beside.hpp"
#include "unmask/device/policies.hpp"

namespace unmask::testing::device_constraint_test {
namespace {

TEST(device_constraint, equals_the_host) {
  if (!has_device()) {
    GTEST_SKIP() << "no CUDA device";
  }
  const constraints_beside n = decode_beside_host(constrained, 7000, 60);
  EXPECT_GT(n.filled, 10);
}

}  // namespace
}  // namespace unmask::testing::device_constraint_test
