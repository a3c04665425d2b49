// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Device memory of a session on a stream in addition to the policy's own state.

#include <unmask/cuda/arrays.hpp>
#include <unmask/cuda/tuning.hpp>

#include <gtest/gtest.h>

#include "unmask/device/policies.hpp"

namespace unmask::testing::arrays_test {
namespace {

/// Bytes of a session for one sequence, without the state that its parts keep at positions.
template <class Policy>
std::size_t bytes_of(const Policy&, const session_capacity& capacity, device::row_shape shape) {
  const std::size_t all =
      device::device_arrays<Policy>::at(nullptr, capacity).bytes +
      static_cast<std::size_t>(capacity.sequences) * step::slot_bytes<Policy>(capacity) +
      device::row_arrays<Policy>::at(nullptr, capacity, shape, capacity.branches, Policy::truncates)
          .bytes;
  return all - step::state_bytes_at<Policy> * static_cast<std::size_t>(capacity.window);
}

TEST(DeviceArrays, AStepTakes32BytesForEachRunOfARowAnd64KB) {
  for (const index_t window : {8, 32, 64, 256}) {
    const session_capacity capacity{
        .sequences = 1, .length = 4096, .window = window, .vocab = 126464};
    const device::row_shape shape = device::shape_rows(window, capacity.vocab, 132);
    const std::size_t most =
        std::size_t{32} * static_cast<std::size_t>(window * shape.runs) + std::size_t{64} * 1024;
    EXPECT_LE(bytes_of(sure_ones, capacity, shape), most) << window;
    EXPECT_LE(bytes_of(bounded, capacity, shape), most) << window;
    EXPECT_LE(bytes_of(in_steps, capacity, shape), most) << window;
    EXPECT_LE(bytes_of(drawn, capacity, shape), most) << window;
  }
}

TEST(DeviceArrays, NothingOfTheSizeOfTheVocabularyIsTakenButRowsThatAreCompared) {
  session_capacity small{.sequences = 2, .length = 512, .window = 32, .vocab = 32000};
  session_capacity large = small;
  large.vocab = 256000;
  const device::row_shape shape{.run_chunks = 4, .runs = 16};
  EXPECT_EQ(bytes_of(sure_ones, small, shape), bytes_of(sure_ones, large, shape));
  EXPECT_EQ(bytes_of(credited, small, shape), bytes_of(credited, large, shape));
  EXPECT_EQ(bytes_of(patient, large, shape) - bytes_of(patient, small, shape),
            sizeof(float) * std::size_t{2} * 32 * (256000 - 32000));
}

}  // namespace
}  // namespace unmask::testing::arrays_test
