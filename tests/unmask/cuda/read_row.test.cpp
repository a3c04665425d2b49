// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Records of rows read on the device, against the bits that stats/canonical.hpp defines. The host
// emulation (tests/unmask/device) covers the cases; this is about the device's arithmetic.

#include <unmask/stats/canonical.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "oracles/oracle.hpp"
#include "support/dice.hpp"
#include "support/fake_logits.hpp"
#include "unmask/cuda/device_memory.hpp"
#include "unmask/cuda/record_of_row.hpp"

namespace unmask::testing::read_row_test {
namespace {

template <class T>
class DeviceRead : public ::testing::Test {};
using elements = ::testing::Types<float, bfloat16, float16>;
TYPED_TEST_SUITE(DeviceRead, elements);

TYPED_TEST(DeviceRead, GivesTheCanonicalBits) {
  if (!has_device()) {
    GTEST_SKIP() << "no CUDA device";
  }
  dice d(1);
  for (const index_t columns :
       {1, 2, 31, 32, 33, 63, 64, 65, 1000, 2047, 2048, 2049, 10000, 126464, 151936}) {
    SCOPED_TRACE(columns);
    std::vector<TypeParam> logits;
    std::vector<float> z;
    for (index_t j = 0; j < columns; ++j) {
      const double x = d.chance(0.01) ? -infinity : static_cast<double>(d.real(-9, 9));
      logits.push_back(encoded<TypeParam>(x));
      z.push_back(static_cast<float>(decoded(logits.back())));
    }
    canonical::chunk_tree<everything> tree;
    for (index_t first = 0; first < columns; first += canonical::chunk_columns) {
      const index_t count = std::min(canonical::chunk_columns, columns - first);
      tree.push(canonical::fold_chunk<everything>(z.data() + first, count, first));
    }
    const record<everything> expected = tree.finish();
    for (const index_t run_chunks : {8, 16, 128}) {
      for (index_t shift = 0; shift < 2; ++shift) {
        const auto actual = record_of_row(logits.data(), columns, shift, run_chunks);
        EXPECT_TRUE(same_bits(actual, expected));
      }
    }
  }
}

}  // namespace
}  // namespace unmask::testing::read_row_test
