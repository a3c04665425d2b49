// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/core/part/layer.hpp>

#include <gtest/gtest.h>

namespace unmask::testing::layer_test {
namespace {

TEST(state_view, has_a_row_for_each_of_its_positions) {
  float data[60] = {};
  const host_state<float> whole(data, 6, 10);
  EXPECT_EQ(whole.row(0), data);
  EXPECT_EQ(whole.row(5), data + 50);
  const host_state<float> part(data, range{5, 8}, 10, 12);
  EXPECT_EQ(part.row(5), data);
  EXPECT_EQ(part.row(7), data + 2 * 12);
}

TEST(device_list, has_as_many_entries_as_its_count_says_and_no_more_than_fit) {
  const index_t entries[] = {3, 5, 8};
  for (const index_t count : {0, 2, 3, 4}) {
    EXPECT_EQ((device_list{entries, &count, 3}.size()), count < 3 ? count : 3);
  }
  const device_list all{entries, nullptr, 3};
  EXPECT_EQ(all.size(), 3);
  EXPECT_EQ(all[1], 5);
  const device_list range_of_three{nullptr, nullptr, 3, 7};
  EXPECT_EQ(range_of_three.size(), 3);
  EXPECT_EQ(range_of_three[2], 9);
}

TEST(cosine_distance, is_1_beside_a_row_of_zeros) {
  const auto distance = [](float product, float square, float previous) {
    drift_sums d = {};
    d.product = product;
    d.square = square;
    d.previous = previous;
    return cosine_distance(d);
  };
  EXPECT_EQ(distance(0.0F, 0.0F, 4.0F), 1.0F);
  EXPECT_EQ(distance(0.0F, 4.0F, 0.0F), 1.0F);
  EXPECT_EQ(distance(0.0F, 0.0F, 0.0F), 1.0F);
  EXPECT_EQ(distance(0.5F, 1.0F, 1.0F), 0.5F);
  EXPECT_EQ(distance(6.0F, 4.0F, 9.0F), 0.0F);
  EXPECT_EQ(distance(-6.0F, 4.0F, 9.0F), 2.0F);
  EXPECT_TRUE(math::is_nan(distance(math::from_bits(0x7fc00000U), 1.0F, 1.0F)));
}

}  // namespace
}  // namespace unmask::testing::layer_test
