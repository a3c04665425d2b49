// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/core/fixed_array.hpp>
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using namespace unmask;

struct odd {
  char text[3] = {'a', 'b', 'c'};
  int number = 7;
};

TEST(FixedArray, HoldsDefaultElements) {
  const fixed_array<odd> a(5);
  ASSERT_EQ(a.size(), 5U);
  for (const odd& o : a) {
    EXPECT_EQ(o.number, 7);
    EXPECT_EQ(o.text[2], 'c');
  }
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.data()) % 64, 0U);
}

TEST(FixedArray, MakesElementsInAscendingOrder) {
  std::vector<std::size_t> order;
  const fixed_array<int> a(4, [&](std::size_t i) {
    order.push_back(i);
    return static_cast<int>(i * i);
  });
  EXPECT_EQ(order, (std::vector<std::size_t>{0, 1, 2, 3}));
  EXPECT_EQ(std::vector<int>(a.begin(), a.end()), (std::vector<int>{0, 1, 4, 9}));
}

TEST(FixedArray, MayBeEmpty) {
  const fixed_array<odd> none;
  const fixed_array<odd> empty(0);
  EXPECT_EQ(none.size(), 0U);
  EXPECT_EQ(empty.begin(), empty.end());
}

TEST(FixedArray, GivesItsElementsToTheArrayThatItIsMovedTo) {
  static_assert(!std::is_copy_constructible_v<fixed_array<int>>);
  fixed_array<int> a(3, [](std::size_t i) { return static_cast<int>(i) + 1; });
  const int* const data = a.data();
  fixed_array<int> b = std::move(a);
  EXPECT_EQ(b.data(), data);
  EXPECT_EQ(b[2], 3);
  EXPECT_EQ(a.size(), 0U);  // NOLINT(bugprone-use-after-move): what a session that was moved has
  fixed_array<int> c(1);
  c = std::move(b);
  ASSERT_EQ(c.size(), 3U);
  EXPECT_EQ(c.data(), data);
}

// A slot points into the memory of its session, so a copy would decode in that of the original.
TEST(FixedArray, ASessionCanBeMovedInMidDecodeAndNotCopied) {
  const policy greedy{by_confidence{}, tokens_per_step{1}};
  using session_type = session<std::remove_const_t<decltype(greedy)>>;
  static_assert(!std::is_copy_constructible_v<session_type>);
  const model_info model{.vocab = 8, .mask_token = 0};
  const sequence_shape shape{.prompt_length = 2, .length = 10, .block_length = 4};
  std::vector<float> logits(std::size_t{10} * 8);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = static_cast<float>(i * 2654435761U % 97U);
  }
  const auto decode = [&](bool moves) {
    std::vector<token_id> tokens(10, 3);
    session_type s(greedy, model, tokens_view<memory::host>{tokens.data(), 10}, shape);
    for (int pass = 0; const auto request = s.next(); ++pass) {
      s.supply(host_logits<float>(logits.data(), request->rows, 8));
      if (moves && pass % 2 == 1) {
        session_type other = std::move(s);
        s = std::move(other);
      }
    }
    return tokens;
  };
  EXPECT_EQ(decode(true), decode(false));
}

}  // namespace
