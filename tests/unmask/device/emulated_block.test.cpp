// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The emulation that the other tests of kernels rest on.

#include "support/emulated_block.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>
#include <vector>

namespace unmask::testing::emulated_block_test {
namespace {

TEST(EmulatedBlock, RunsEveryThreadOnce) {
  block_emulator block(100);
  std::vector<int> seen(100);
  block.run([&](const emulated_block& b) { ++seen[static_cast<std::size_t>(b.lane())]; });
  EXPECT_EQ(seen, std::vector<int>(100, 1));
}

TEST(EmulatedBlock, BarriersOrderWhatIsSharedUnderEverySeed) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    block_emulator block(64, seed);
    std::vector<index_t> shared(64);
    std::vector<index_t> sums(64);
    block.run([&](const emulated_block& b) {
      shared[static_cast<std::size_t>(b.lane())] = b.lane();
      b.sync();
      sums[static_cast<std::size_t>(b.lane())] = std::accumulate(shared.begin(), shared.end(), 0);
    });
    EXPECT_EQ(sums, std::vector<index_t>(64, 64 * 63 / 2));
  }
}

TEST(EmulatedBlock, AForgottenBarrierShows) {
  block_emulator block(64, 1);
  std::vector<index_t> shared(64);
  int wrong = 0;
  block.run([&](const emulated_block& b) {
    shared[static_cast<std::size_t>(b.lane())] = 1;
    wrong += std::accumulate(shared.begin(), shared.end(), 0) == 64 ? 0 : 1;
  });
  EXPECT_GT(wrong, 0);
}

TEST(EmulatedBlock, ShufflesExchangeWithinAWarp) {
  block_emulator block(96, 3);
  std::vector<std::uint32_t> sums(96);
  block.run([&](const emulated_block& b) {
    auto sum = static_cast<std::uint32_t>(b.lane());
    for (index_t distance = 16; distance > 0; distance /= 2) {
      sum += b.shuffle_xor(sum, distance);
    }
    sums[static_cast<std::size_t>(b.lane())] = b.shuffle(sum, 7);
  });
  for (std::uint32_t i = 0; i < 96; ++i) {
    EXPECT_EQ(sums[i], i / 32 * 32 * 32 + 31 * 16);
  }
}

TEST(EmulatedBlock, ThreadsAskEachOtherWhateverTheirOrder) {
  for (const index_t threads : {1, 31, 32, 96, 200}) {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      block_emulator block(threads, seed);
      std::vector<std::vector<lane_count>> counts(static_cast<std::size_t>(threads));
      std::vector<std::uint64_t> bits(static_cast<std::size_t>(threads));
      block.run([&](const emulated_block& b) {
        auto& own = counts[static_cast<std::size_t>(b.lane())];
        for (index_t k = 2; k < 6; ++k) {  // one question after the other, without a barrier
          own.push_back(b.count(b.lane() % k == 1));
        }
        bits[static_cast<std::size_t>(b.lane())] = b.any(std::uint64_t{1} << (b.lane() % 64));
      });
      for (index_t lane = 0; lane < threads; ++lane) {
        for (index_t k = 2; k < 6; ++k) {
          index_t before = 0;
          index_t all = 0;
          for (index_t i = 0; i < threads; ++i) {
            all += i % k == 1 ? 1 : 0;
            before += i < lane && i % k == 1 ? 1 : 0;
          }
          const lane_count c =
              counts[static_cast<std::size_t>(lane)][static_cast<std::size_t>(k - 2)];
          EXPECT_EQ(c.before, before);
          EXPECT_EQ(c.all, all);
        }
        const std::uint64_t expected =
            threads >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << threads) - 1;
        EXPECT_EQ(bits[static_cast<std::size_t>(lane)], expected);
      }
    }
  }
}

TEST(EmulatedBlock, ABarrierThatNotEveryThreadReachesIsAnError) {
  block_emulator block(32);
  EXPECT_THROW(block.run([](const emulated_block& b) {
    if (b.lane() != 5) {
      b.sync();
    }
  }),
               std::logic_error);
}

TEST(EmulatedBlock, PassesOnWhatAThreadThrows) {
  block_emulator block(32);
  const auto body = [](const emulated_block& b) {
    if (b.lane() == 5) {
      throw std::runtime_error("five");
    }
    b.sync();
  };
  EXPECT_THROW(block.run(body), std::runtime_error);
  block.run([](const emulated_block& b) { b.sync(); });  // and can go on
}

}  // namespace
}  // namespace unmask::testing::emulated_block_test
