// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A hidden vector against its predecessor: the canonical order on every instruction set, and its
// distance from sums in double precision.

#include <unmask/host/drift.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "support/dice.hpp"
#include "support/fake_logits.hpp"
#include "support/instruction_sets.hpp"

namespace unmask::testing::drift_test {
namespace {

constexpr drift_terms all_terms = drift_terms::distance_1 | drift_terms::distance_2 | cosine_terms;

template <class T>
class Drift : public ::testing::Test {};
using elements = ::testing::Types<float, bfloat16, float16>;
TYPED_TEST_SUITE(Drift, elements);

template <class T>
std::vector<T> random_row(dice& d, index_t columns) {
  std::vector<T> row;
  for (index_t j = 0; j < columns; ++j) {
    row.push_back(encoded<T>(d.chance(0.1) ? 0.0 : d.real(-4.0, 4.0)));
  }
  return row;
}

std::vector<float> listed(const drift_sums& s) {
  return {s.distance_1, s.distance_2, s.product, s.square, s.previous};
}

/// The five sums in double precision, in the order of `listed`.
template <class T>
std::vector<double> exact(const std::vector<T>& now, const std::vector<T>& before) {
  std::vector<double> sums(5, 0.0);
  for (std::size_t j = 0; j < now.size(); ++j) {
    const double h = decoded(now[j]);
    const double g = before.empty() ? 0.0 : decoded(before[j]);
    sums[0] += std::fabs(h - g);
    sums[1] += (h - g) * (h - g);
    sums[2] += h * g;
    sums[3] += h * h;
    sums[4] += g * g;
  }
  return sums;
}

TYPED_TEST(Drift, EveryInstructionSetGivesTheBitsOfTheDefinition) {
  dice d(1);
  for (const index_t columns : {0, 1, 7, 31, 32, 33, 63, 64, 65, 100, 1023, 4096}) {
    // One number off every alignment.
    const auto now = random_row<TypeParam>(d, columns + 1);
    const auto before = random_row<TypeParam>(d, columns + 1);
    for (const bool first : {false, true}) {
      const TypeParam* const g = first ? nullptr : before.data() + 1;
      const std::vector<float> expected =
          listed(canonical::drift_of<all_terms>(now.data() + 1, g, columns));
      for (const host::instruction_set level : instruction_sets()) {
        EXPECT_EQ(listed(host::drift<all_terms>(now.data() + 1, g, columns, level)), expected)
            << columns << " columns, instruction set " << static_cast<int>(level);
      }
    }
  }
}

TYPED_TEST(Drift, TermsAreTheSameAloneAndTogether) {
  dice d(2);
  const auto now = random_row<TypeParam>(d, 777);
  const auto before = random_row<TypeParam>(d, 777);
  for (const host::instruction_set level : instruction_sets()) {
    const drift_sums all = host::drift<all_terms>(now.data(), before.data(), 777, level);
    const drift_sums few = host::drift<drift_terms::distance_1 | drift_terms::previous>(
        now.data(), before.data(), 777, level);
    EXPECT_EQ(few.distance_1, all.distance_1);
    EXPECT_EQ(few.previous, all.previous);
    EXPECT_EQ(few.product, 0.0F);
    EXPECT_EQ(few.columns, 777);
  }
}

/// A lane adds n / 32 numbers one after the other, then five halvings: each rounding is at most
/// 2^-24 of the sum of the magnitudes so far.
TYPED_TEST(Drift, AgreesWithDoublePrecision) {
  dice d(3);
  for (const index_t columns : {1, 64, 1000, 8192}) {
    const auto now = random_row<TypeParam>(d, columns);
    const auto before = random_row<TypeParam>(d, columns);
    const std::vector<float> sums =
        listed(canonical::drift_of<all_terms>(now.data(), before.data(), columns));
    const std::vector<double> truth = exact(now, before);
    double magnitude = 0.0;
    for (index_t j = 0; j < columns; ++j) {
      const auto at = static_cast<std::size_t>(j);
      magnitude += std::fabs(decoded(now[at]) * decoded(before[at]));
    }
    const double roundings = static_cast<double>(columns) / 32.0 + 7.0;
    for (std::size_t k = 0; k < sums.size(); ++k) {
      const double scale = k == 2 ? magnitude : truth[k];
      EXPECT_NEAR(sums[k], truth[k], scale * roundings * 0x1p-24) << "sum " << k;
    }
  }
}

TYPED_TEST(Drift, EqualVectorsAreAtNoDistance) {
  dice d(4);
  const auto row = random_row<TypeParam>(d, 500);
  const drift_sums s =
      host::drift<all_terms>(row.data(), row.data(), 500, host::best_instruction_set());
  EXPECT_EQ(s.distance_1, 0.0F);
  EXPECT_EQ(s.distance_2, 0.0F);
  EXPECT_EQ(s.product, s.square);
  EXPECT_NEAR(cosine_distance(s), 0.0F, 1e-6F);
}

TYPED_TEST(Drift, ZeroVectors) {
  dice d(5);
  const std::vector<TypeParam> zero(96);
  const auto row = random_row<TypeParam>(d, 96);
  for (const host::instruction_set level : instruction_sets()) {
    EXPECT_EQ(cosine_distance(host::drift<cosine_terms>(zero.data(), zero.data(), 96, level)),
              1.0F);
    EXPECT_EQ(cosine_distance(host::drift<cosine_terms>(row.data(), zero.data(), 96, level)), 1.0F);
    const TypeParam* const none = nullptr;
    EXPECT_EQ(listed(host::drift<all_terms>(row.data(), none, 96, level)),
              listed(host::drift<all_terms>(row.data(), zero.data(), 96, level)));
  }
}

TYPED_TEST(Drift, ANaNPoisonsTheSumsItEnters) {
  dice d(6);
  for (const index_t where : {0, 17, 32, 95, 99}) {
    auto now = random_row<TypeParam>(d, 100);
    const auto before = random_row<TypeParam>(d, 100);
    now[static_cast<std::size_t>(where)] = encoded<TypeParam>(not_a_number);
    for (const host::instruction_set level : instruction_sets()) {
      const drift_sums s = host::drift<all_terms>(now.data(), before.data(), 100, level);
      EXPECT_TRUE(std::isnan(s.distance_1) && std::isnan(s.distance_2) && std::isnan(s.product) &&
                  std::isnan(s.square));
      EXPECT_FALSE(std::isnan(s.previous));
      EXPECT_TRUE(std::isnan(cosine_distance(s)));
    }
  }
}

TEST(CosineDistance, OfOppositeAndRightAngledVectors) {
  const std::vector<float> a{1.0F, 2.0F, 0.0F};
  const std::vector<float> b{-2.0F, -4.0F, 0.0F};
  const std::vector<float> c{0.0F, 0.0F, 3.0F};
  EXPECT_NEAR(
      cosine_distance(canonical::drift_of<cosine_terms>(a.data(), b.data(), 3)), 2.0F, 1e-6F);
  EXPECT_EQ(cosine_distance(canonical::drift_of<cosine_terms>(a.data(), c.data(), 3)), 1.0F);
}

}  // namespace
}  // namespace unmask::testing::drift_test
