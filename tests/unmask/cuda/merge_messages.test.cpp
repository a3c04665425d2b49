// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The messages of two ranks, merged in a kernel, have the bits that the host makes of them.

#include "unmask/cuda/merge_messages.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "support/dice.hpp"
#include "unmask/cuda/device_memory.hpp"

namespace unmask::testing::merge_messages_test {
namespace {

constexpr index_t chunk = canonical::chunk_columns;

/// A message about `columns` of three rows with two tracked tokens.
[[nodiscard]] std::vector<std::byte> message_of(range columns, index_t vocab) {
  ranks::message_header h;
  h.contents = exchanged.bits;
  h.vocab = vocab;
  h.columns = columns;
  h.rows = {0, 3};
  h.all_rows = 3;
  h.nodes = 8;
  h.tracked = 2;
  std::vector<std::byte> bytes(ranks::message_bytes<exchanged>(h));
  std::memcpy(bytes.data(), &h, sizeof h);
  dice d(static_cast<std::uint64_t>(columns.first));
  for (index_t row = 0; row < 3; ++row) {
    std::vector<record<exchanged>> nodes;
    for (range rest = columns; !rest.empty();) {
      const range node = ranks::first_node(rest, vocab);
      std::vector<float> z(static_cast<std::size_t>(std::min(node.size(), chunk)));
      for (float& x : z) {
        x = d.real(-5, 9);
      }
      nodes.push_back(
          canonical::fold_chunk<exchanged>(z.data(), static_cast<index_t>(z.size()), node.first));
      rest.first = node.last;
    }
    const float tracked[] = {columns.contains(5) ? 1.5F : -math::infinity(),
                             columns.contains(vocab - 1) ? d.real(0, 1) : -math::infinity()};
    ranks::pack<exchanged>(h, row, nodes.data(), tracked, bytes.data());
  }
  return bytes;
}

TEST(DeviceMerge, GivesTheBitsOfTheHost) {
  if (!has_device()) {
    GTEST_SKIP() << "no CUDA device";
  }
  const index_t vocab = 13 * chunk + 9;
  for (const index_t cut : {3 * chunk, 8 * chunk, 5 * chunk + 100}) {
    const auto left = message_of({0, cut}, vocab);
    const auto right = message_of({cut, vocab}, vocab);
    std::vector<std::byte> expected = left;
    ASSERT_EQ(ranks::merge<exchanged>(left.data(), right.data(), expected.data()),
              ranks::fault::none);
    const auto actual = merged_on_device(left, right);
    const ranks::message_header h = ranks::header_of(expected.data());
    ASSERT_EQ(std::memcmp(actual.data(), &h, sizeof h), 0);
    for (index_t row = 0; row < 3; ++row) {
      ranks::node_stack<exchanged> a{vocab};
      ranks::node_stack<exchanged> b{vocab};
      ranks::unpack<exchanged>(h, expected.data(), row, a);
      ranks::unpack<exchanged>(h, actual.data(), row, b);
      ASSERT_TRUE(a.complete() && b.complete());
      EXPECT_EQ(std::memcmp(&a[0], &b[0], sizeof a[0]), 0) << "row " << row << ", cut at " << cut;
      for (index_t i = 0; i < 2; ++i) {
        EXPECT_EQ(ranks::tracked_logit<exchanged>(h, expected.data(), row, i),
                  ranks::tracked_logit<exchanged>(h, actual.data(), row, i));
      }
    }
  }
}

}  // namespace
}  // namespace unmask::testing::merge_messages_test
