// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The exact top-m selection beside a stable sort.

#include <unmask/step/choose.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "support/dice.hpp"

namespace unmask::testing::choose_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr float inf = std::numeric_limits<float>::infinity();
const float nan = std::nanf("");

std::vector<index_t> chosen(const std::vector<float>& importances, index_t wanted) {
  std::vector<std::uint32_t> keys;
  for (const float x : importances) {
    keys.push_back(step::importance_key(x));
  }
  keys.push_back(step::always_key);  // behind the last
  std::vector<index_t> out(keys.size(), -7);
  const index_t count =
      step::choose(keys.data(), static_cast<index_t>(importances.size()), wanted, out.data());
  EXPECT_EQ(out[static_cast<std::size_t>(count)], -7);
  out.resize(static_cast<std::size_t>(count));
  return out;
}

/// +inf always, then NaN, then numbers from the highest; equals in ascending index; -inf never.
std::vector<index_t> sorted_choice(const std::vector<float>& x, index_t wanted) {
  std::vector<index_t> order;
  std::vector<index_t> result;
  for (index_t i = 0; i < static_cast<index_t>(x.size()); ++i) {
    const float value = x[static_cast<std::size_t>(i)];
    if (value == inf) {
      result.push_back(i);
    } else if (value != -inf) {
      order.push_back(i);
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](index_t a, index_t b) {
    const float p = x[static_cast<std::size_t>(a)];
    const float q = x[static_cast<std::size_t>(b)];
    return std::isnan(p) != std::isnan(q) ? std::isnan(p) : p > q;
  });
  const auto taken = std::clamp(wanted, 0, static_cast<index_t>(order.size()));
  result.insert(result.end(), order.begin(), order.begin() + taken);
  std::sort(result.begin(), result.end());
  return result;
}

TEST(Choose, TheHighestInAscendingOrder) {
  EXPECT_THAT(chosen({0.5F, -1.0F, 3.0F, 2.0F}, 2), ElementsAre(2, 3));
  EXPECT_THAT(chosen({0.5F, -1.0F, 3.0F, 2.0F}, 3), ElementsAre(0, 2, 3));
}

TEST(Choose, EqualsGoToTheLowerIndex) {
  EXPECT_THAT(chosen({1.0F, 2.0F, 1.0F, 2.0F, 1.0F}, 3), ElementsAre(0, 1, 3));
  EXPECT_THAT(chosen({0.0F, -0.0F, 0.0F}, 2), ElementsAre(0, 1));
  EXPECT_THAT(chosen({-0.0F, 0.0F, -0.0F}, 1), ElementsAre(0));
}

TEST(Choose, AnyNumberWanted) {
  EXPECT_THAT(chosen({1.0F, 2.0F}, 0), IsEmpty());
  EXPECT_THAT(chosen({1.0F, 2.0F}, -3), IsEmpty());
  EXPECT_THAT(chosen({1.0F, 2.0F}, 9), ElementsAre(0, 1));
  EXPECT_THAT(chosen({}, 1), IsEmpty());
}

TEST(Choose, InfinitiesAreBesideTheQuota) {
  EXPECT_THAT(chosen({1.0F, inf, 2.0F, -inf, inf}, 1), ElementsAre(1, 2, 4));
  EXPECT_THAT(chosen({1.0F, inf, 2.0F, -inf, inf}, 0), ElementsAre(1, 4));
  EXPECT_THAT(chosen({-inf, -inf, 0.0F}, 3), ElementsAre(2));
}

TEST(Choose, NaNIsTheHighestWithinTheQuota) {
  EXPECT_THAT(chosen({1e30F, nan, inf, 2.0F}, 1), ElementsAre(1, 2));
  EXPECT_THAT(chosen({1e30F, -nan, 2.0F}, 1), ElementsAre(1));
  EXPECT_THAT(chosen({nan, nan, 2.0F}, 1), ElementsAre(0));
}

TEST(Choose, AgreesWithAStableSort) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    dice d(seed);
    std::vector<float> x;
    const index_t count = d.within(0, 300);
    const bool coarse = d.chance(0.5);  // many ties
    for (index_t i = 0; i < count; ++i) {
      const float value = d.real(-3.0, 3.0);
      x.push_back(d.chance(0.05)   ? inf
                  : d.chance(0.05) ? -inf
                  : d.chance(0.05) ? nan
                                   : (coarse ? std::round(value) : value * d.real(1e-30, 1e30)));
    }
    const index_t wanted = d.within(-1, count + 1);
    EXPECT_EQ(chosen(x, wanted), sorted_choice(x, wanted)) << "seed " << seed;
  }
}

/// Indices chosen besides spend a place where their key has one, and none otherwise.
TEST(Choose, WhatIsChosenBesidesIsAUnion) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    dice d(seed);
    std::vector<float> x;
    std::vector<std::uint32_t> keys;
    std::vector<bool> besides;
    const index_t count = d.within(0, 90);
    for (index_t i = 0; i < count; ++i) {
      x.push_back(d.chance(0.1) ? inf : d.chance(0.1) ? -inf : std::round(d.real(-3.0, 3.0)));
      keys.push_back(step::importance_key(x.back()));
      besides.push_back(d.chance(0.2));
    }
    const index_t wanted = d.within(-1, count + 1);
    std::vector<index_t> expected = sorted_choice(x, wanted);
    for (index_t i = 0; i < count; ++i) {
      const auto at = std::lower_bound(expected.begin(), expected.end(), i);
      if (besides[static_cast<std::size_t>(i)] && (at == expected.end() || *at != i)) {
        expected.insert(at, i);
      }
    }
    std::vector<index_t> got(static_cast<std::size_t>(count));
    got.resize(static_cast<std::size_t>(
        step::choose(keys.data(), count, wanted, got.data(), [&](index_t i) {
          return bool{besides[static_cast<std::size_t>(i)]};
        })));
    EXPECT_EQ(got, expected) << "seed " << seed;
  }
}

TEST(Choose, MoreWantedAreASuperset) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    dice d(seed);
    std::vector<float> x;
    for (index_t i = 0; i < 60; ++i) {
      x.push_back(std::round(d.real(-4.0, 4.0)));
    }
    std::vector<index_t> fewer;
    for (index_t wanted = 0; wanted <= 60; ++wanted) {
      const std::vector<index_t> more = chosen(x, wanted);
      EXPECT_EQ(static_cast<index_t>(more.size()), wanted);
      EXPECT_TRUE(std::includes(more.begin(), more.end(), fewer.begin(), fewer.end()));
      fewer = more;
    }
  }
}

/// Where nothing ties, the order of the rows does not matter.
TEST(Choose, PermutedRowsGiveThePermutedChoice) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    dice d(seed);
    const index_t count = d.within(1, 80);
    const std::vector<index_t> values = d.permutation(count);
    const std::vector<index_t> moved_to = d.permutation(count);
    std::vector<float> x(values.size());
    std::vector<float> moved(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      x[i] = static_cast<float>(values[i]) * 0.25F - 3.0F;
      moved[static_cast<std::size_t>(moved_to[i])] = x[i];
    }
    const index_t wanted = d.within(0, count);
    std::vector<index_t> expected;
    for (const index_t i : chosen(x, wanted)) {
      expected.push_back(moved_to[static_cast<std::size_t>(i)]);
    }
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(chosen(moved, wanted), expected);
  }
}

TEST(Choose, ExtremeNumbersKeepTheirOrder) {
  const float top = std::numeric_limits<float>::max();
  const float tiny = std::numeric_limits<float>::denorm_min();
  const std::vector<float> x{-top, -1.0F, -tiny, 0.0F, tiny, 1.0F, top};
  for (index_t m = 0; m <= 7; ++m) {
    std::vector<index_t> expected(static_cast<std::size_t>(m));
    std::iota(expected.begin(), expected.end(), 7 - m);
    EXPECT_EQ(chosen(x, m), expected);
  }
}

}  // namespace
}  // namespace unmask::testing::choose_test
