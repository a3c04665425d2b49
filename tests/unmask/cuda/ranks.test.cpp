// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Several ranks on one device, which exchange messages by copies: what they decide is what one
// session on the host decides.

#include <unmask/cuda.hpp>

#include <gtest/gtest.h>

#include <stdexcept>
#include <type_traits>

#include "support/cuts.hpp"
#include "support/ranks_on_stream.hpp"
#include "unmask/device/policies.hpp"

namespace unmask::testing::ranks_test {
namespace {

class DeviceRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_device()) {
      GTEST_SKIP() << "no CUDA device";
    }
  }
};

constexpr index_t chunk = canonical::chunk_columns;

void for_each_policy(const auto& use) {
  use(sure_ones);
  use(credited);
  use(drawn);
  use(branching_out);
}

TEST_F(DeviceRanks, DecideBitByBitWhatOneSessionDecides) {
  dice d(1);
  for_each_policy([&](const auto& p) {
    for (const index_t vocab : {33, 20011, 126464}) {
      const auto decode = fake_decode_of(p, vocab, d.bits());
      const auto cuts = random_cuts(d, vocab, d.within(1, 8), chunk);
      expect_ranks_on_stream_equal<bfloat16>(decode, cuts, decode.template whole<bfloat16>());
    }
  });
}

TEST_F(DeviceRanks, CutInsideAChunkDecideBitByBitWhatRanksOnTheHostDo) {
  dice d(2);
  const auto decode = fake_decode_of(credited, 50257, d.bits());
  const auto cuts = random_cuts(d, 50257, 4, 1);
  expect_ranks_on_stream_equal<float>(decode, cuts, decode.ranks<float>(cuts));
}

TEST_F(DeviceRanks, ReadAllElementTypesWithMasksAndGuidance) {
  dice d(3);
  auto decode = fake_decode_of(credited, 9 * chunk + 1, d.bits());
  decode.allowed = 0.4;
  decode.guidance = 0.5F;
  const auto cuts = chunk_cuts(decode.model.vocab, 3);
  expect_ranks_on_stream_equal<float>(decode, cuts, decode.whole<float>());
  expect_ranks_on_stream_equal<float16>(decode, cuts, decode.whole<float16>());
}

// In both messages, so that several threads find something wrong.
TEST_F(DeviceRanks, FindMessagesThatDoNotGoTogetherAndDecideNothing) {
  const auto decode = fake_decode_of(sure_ones, 40, 10);
  const index_t cuts[] = {0, 15, 40};
  const test_stream stream;
  ranks_on_stream<float, std::remove_const_t<decltype(sure_ones)>> both(decode, cuts, stream.get());
  const auto request = both.rank(0).next();
  static_cast<void>(both.rank(1).next());
  const auto masked = both.tokens(0);
  both.read(*request);
  static_cast<void>(both.rank(0).report());
  const std::size_t bytes = both.rank(0).message_bytes();
  for (const std::size_t message : {std::size_t{0}, bytes}) {
    ASSERT_EQ(cudaMemset(both.everyones_bytes() + message + 4, 0x5a, 4), cudaSuccess);
  }
  both.rank(0).supply(both.everyone());
  EXPECT_THROW(static_cast<void>(both.rank(0).next()), std::invalid_argument);
  EXPECT_EQ(both.tokens(0), masked);
  EXPECT_EQ(both.rank(0).report().forwards, 0);
}

}  // namespace
}  // namespace unmask::testing::ranks_test
