// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations of a whole block, beside Thrust: by emulated threads, and by those of a
// device where there is one.

#include <unmask/cuda/read_row.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "oracles/thrust_oracle.hpp"
#include "support/dice.hpp"
#include "support/emulated_block.hpp"
#include "unmask/cuda/block_bodies.hpp"
#include "unmask/cuda/device_memory.hpp"

namespace unmask::testing::block_test {
namespace {

using numbers = std::vector<std::uint64_t>;

struct emulated {
  static constexpr bool is_there() { return true; }
  template <class Body>
  static numbers run(const Body& body, index_t threads, const numbers& in, std::size_t out) {
    numbers result(out, 0);
    block_emulator block(threads, in.size());
    block.run([&](const emulated_block& b) {
      body(b, in.data(), static_cast<index_t>(in.size()), result.data());
    });
    return result;
  }
};
struct on_device {
  static bool is_there() { return has_device(); }
  template <class Body>
  static numbers run(const Body& body, index_t threads, const numbers& in, std::size_t out) {
    return run_on_device(body, threads, in, out);
  }
};

template <class Where>
class Block : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!Where::is_there()) {
      GTEST_SKIP() << "no CUDA device";
    }
  }
  template <class Body>
  static numbers run(const Body& body, index_t threads, const numbers& in, std::size_t out) {
    return Where::run(body, threads, in, out);
  }
};
using places = ::testing::Types<emulated, on_device>;
TYPED_TEST_SUITE(Block, places);

numbers random_numbers(std::size_t count, dice& d) {
  numbers x(count);
  for (std::uint64_t& one : x) {
    one = d.bits() >> (8 * d.within(0, 7));
  }
  return x;
}

TYPED_TEST(Block, AddsAndCountsBeforeEachThread) {
  dice d(1);
  for (const index_t threads : {128, 256}) {
    const auto count = static_cast<std::size_t>(threads);
    const numbers x = random_numbers(count, d);
    std::vector<std::uint32_t> narrow(x.begin(), x.end());
    std::vector<index_t> odd;
    for (const std::uint64_t one : x) {
      odd.push_back(one % 2 == 1 ? 1 : 0);
    }
    const numbers sums = thrust_oracle::exclusive_sums(x);
    narrow = thrust_oracle::exclusive_sums(narrow);
    odd = thrust_oracle::exclusive_sums(odd);
    const numbers got = this->run(sums_body{}, threads, x, 6 * count);
    for (std::size_t i = 0; i < count; ++i) {
      const numbers own(got.begin() + static_cast<std::ptrdiff_t>(6 * i),
                        got.begin() + static_cast<std::ptrdiff_t>(6 * i + 6));
      ASSERT_EQ(own,
                (numbers{sums[i],
                         sums.back(),
                         narrow[i],
                         narrow.back(),
                         static_cast<std::uint64_t>(odd[i]),
                         static_cast<std::uint64_t>(odd.back())}))
          << i;
    }
  }
}

TYPED_TEST(Block, JoinsTheBitsOfAllThreads) {
  dice d(2);
  for (const index_t threads : {128, 256}) {
    numbers x(static_cast<std::size_t>(threads), 0);
    for (int k = 0; k < 5; ++k) {
      x[static_cast<std::size_t>(d.within(0, threads - 1))] |= std::uint64_t{1} << d.within(0, 63);
    }
    numbers others;
    for (const std::uint64_t one : x) {
      others.push_back(~one);
    }
    numbers expected(x.size(), thrust_oracle::any(others));
    expected.insert(expected.end(), x.size(), thrust_oracle::any(x));
    EXPECT_EQ(this->run(any_body{}, threads, x, 2 * x.size()), expected);
  }
}

TYPED_TEST(Block, HoldsTheFirstOfAWarpsKeys) {
  dice d(3);
  constexpr auto held = static_cast<std::ptrdiff_t>(device::warp_list::held);
  constexpr auto room = static_cast<std::ptrdiff_t>(device::warp_list::room);
  for (const std::ptrdiff_t n : {64, 96, 128, 160, 512, 2048}) {
    numbers x = random_numbers(static_cast<std::size_t>(4 * n), d);
    for (std::size_t i = 0; i < x.size(); i += n < 200 ? 2 : 5) {
      x[i] = step::no_key;
    }
    for (std::ptrdiff_t w = 1; w <= 4; ++w) {
      std::sort(x.begin() + w * n - held, x.begin() + w * n);
    }
    const numbers got = this->run(hold_body{}, 128, x, static_cast<std::size_t>(4 * room));
    for (std::ptrdiff_t w = 0; w < 4; ++w) {
      numbers all = thrust_oracle::sorted(numbers(x.begin() + w * n, x.begin() + (w + 1) * n));
      all.resize(static_cast<std::size_t>(held));
      EXPECT_EQ(numbers(got.begin() + w * room, got.begin() + w * room + held), all) << n;
    }
  }
}

TYPED_TEST(Block, SortsEveryPowerOfTwo) {
  dice d(4);
  for (const index_t threads : {128, 256}) {
    for (std::size_t size = 1; size <= 2048; size *= 2) {
      numbers x;
      for (std::size_t i = 0; i < size; ++i) {
        x.push_back(step::order_key(d.one_of(std::vector<float>{0.1F, 0.5F, 0.9F}),
                                    static_cast<index_t>(i)));
      }
      EXPECT_EQ(this->run(sort_body{}, threads, x, size), thrust_oracle::sorted(x)) << size;
    }
  }
}

TYPED_TEST(Block, SelectsTheLowestKeys) {
  dice d(5);
  for (int round = 0; round < 60; ++round) {
    const auto count = static_cast<std::size_t>(d.within(0, 900));
    const auto kinds =
        static_cast<std::uint64_t>(d.one_of(std::vector<index_t>{1, 3, 40, 1 << 30}));
    std::vector<std::uint32_t> keys;
    index_t always = 0;
    index_t never = 0;
    for (std::size_t i = 0; i < count; ++i) {
      keys.push_back(d.chance(0.05)   ? step::always_key
                     : d.chance(0.05) ? step::never_key
                                      : static_cast<std::uint32_t>(d.bits() % kinds * 2654435761U));
      always += keys.back() == step::always_key ? 1 : 0;
      never += keys.back() == step::never_key ? 1 : 0;
    }
    const index_t wanted = d.within(-1, static_cast<index_t>(count) + 1);
    const index_t others =
        std::min(std::max(wanted, 0), static_cast<index_t>(count) - always - never);
    const std::vector<index_t> lowest = thrust_oracle::lowest(keys, always + others);
    numbers expected{lowest.size()};
    expected.insert(expected.end(), lowest.begin(), lowest.end());
    numbers got = this->run(choose_body{wanted},
                            d.chance(0.5) ? 128 : 256,
                            numbers(keys.begin(), keys.end()),
                            choose_body::size(count));
    got.resize(expected.size());
    ASSERT_EQ(got, expected) << "round " << round;
  }
}

// The columns in order of their keys, then the masses before each: the walk of stats/last_key.hpp.
TYPED_TEST(Block, FindsTheLastKeptColumn) {
  dice d(6);
  for (int round = 0; round < 40; ++round) {
    const index_t columns = d.within(1, 3000);
    numbers bits;
    numbers keys;
    for (index_t i = 0; i < columns; ++i) {
      const float z = d.chance(0.3) ? static_cast<float>(d.within(-2, 2)) : d.real(-9, 9);
      bits.push_back(math::bits_of(z));
      keys.push_back(~rank_key(z, i));
    }
    canonical::row_limits limits;
    limits.best = 9.0F;
    limits.depth = -math::infinity();
    limits.tokens = d.chance(0.5) ? d.within(1, columns) : columns;
    limits.mass = d.chance(0.5) ? static_cast<canonical::mass_units>(d.real(0, 8) * 0x1p38F)
                                : ~canonical::mass_units{0};
    keys = thrust_oracle::sorted(keys);
    std::vector<canonical::mass_units> before;
    for (const std::uint64_t key : keys) {
      before.push_back(limits.mass_of(ranked(~key).logit));
    }
    before = thrust_oracle::exclusive_sums(before);
    index_t kept = 0;
    while (kept < columns &&
           !limits.end_after(kept + 1, before[static_cast<std::size_t>(kept) + 1])) {
      ++kept;
    }
    const canonical::value_bins values{
        d.real(-9, 9), d.one_of(std::vector<float>{1e-3F, 4.0F, 1e4F}), last_key_body::bins::size};
    const numbers got = this->run(
        last_key_body{limits, values}, d.chance(0.5) ? 128 : 256, bits, last_key_body::size());
    // The last kept column is the first that is not kept completely.
    index_t as_many = 0;
    for (const std::uint64_t key : keys) {
      as_many += ~key >= got[0] ? 1 : 0;
    }
    EXPECT_EQ(as_many, std::min(kept + 1, columns)) << "round " << round << ", " << columns;
  }
}

TEST(DeviceTickets, AreTakenOnceAndStandForWhatWasWritten) {
  if (!has_device()) {
    GTEST_SKIP() << "no CUDA device";
  }
  constexpr index_t groups = 500;
  tickets_taken taken = take_tickets_on_device(groups);
  for (index_t n = 0; n < groups; ++n) {
    const auto first = taken.tickets.begin() + n * tickets_taken::group;
    std::sort(first, first + tickets_taken::group);
    for (index_t ticket = 0; ticket < tickets_taken::group; ++ticket) {
      EXPECT_EQ(first[ticket], static_cast<std::uint32_t>(ticket));
    }
    EXPECT_EQ(taken.seen[static_cast<std::size_t>(n)], std::uint32_t{tickets_taken::group});
  }
}

TEST(EmulatedRows, HaveTheBestTokenOfEachRow) {
  dice d(7);
  for (int round = 0; round < 10; ++round) {
    const index_t columns = d.within(1, 9000);
    constexpr index_t rows = 3;
    std::vector<float> logits;
    for (index_t i = 0; i < rows * columns; ++i) {
      logits.push_back(d.chance(0.2) ? 8.5F : d.real(-9, 9));
    }
    const std::vector<token_id> best = thrust_oracle::best_tokens(logits, columns);
    using node = record<stat::margin>;
    for (index_t r = 0; r < rows; ++r) {
      row_input<float> row;
      row.logits = logits.data() + static_cast<std::ptrdiff_t>(r) * columns;
      row.columns = columns;
      const index_t runs = (canonical::chunks_of(columns) + 1) / 2;
      std::vector<node> parts(static_cast<std::size_t>(runs));
      std::vector<node> nodes(device::node_count<stat::margin>);
      std::uint32_t arrived = 0;
      node out;
      block_emulator block(64, d.bits());
      for (const index_t run : d.permutation(runs)) {
        block.run([&](const emulated_block& b) {
          device::read_row<stat::margin, device::exact_exponential>(
              b, row, identity{}, run, 2, {parts.data(), &arrived}, nodes.data(), out);
        });
      }
      EXPECT_EQ(out.token, best[static_cast<std::size_t>(r)]);
    }
  }
}

}  // namespace
}  // namespace unmask::testing::block_test
