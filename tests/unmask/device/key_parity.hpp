// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// As parity.hpp, for the keys that a layer keeps: the same scores and the same choice as on the
/// host, bit by bit.

#include <unmask/cuda/key_selector.hpp>
#include <unmask/host/key_selector.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/dice.hpp"
#include "support/fake_logits.hpp"
#include "support/layers_beside.hpp"
#include "unmask/cuda/device_memory.hpp"

namespace unmask::testing {

template <class T>
class KeyParity : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_device()) {
      GTEST_SKIP() << "no CUDA device";
    }
  }
};
TYPED_TEST_SUITE_P(KeyParity);

/// Scores with many ties: few values, zeros of both signs, the largest and smallest
/// numbers, infinities, NaN.
template <element T>
[[nodiscard]] std::vector<T> awkward_scores(index_t count, dice& d) {
  const std::vector<double> awkward = {
      0.0, -0.0, infinity, -infinity, not_a_number, 3.0e38, -3.0e38, 6.0e-8, -6.0e-8, 1.0e-40};
  const double trouble = d.one_of(std::vector<double>{0.0, 0.1, 1.0});
  const bool coarse = d.chance(0.5);
  std::vector<T> scores;
  for (index_t i = 0; i < count; ++i) {
    const double score = d.chance(trouble) ? d.one_of(awkward)
                         : coarse          ? 0.5 * d.within(-2, 2)
                                           : static_cast<double>(d.real(-4, 4));
    scores.push_back(encoded<T>(score));
  }
  return scores;
}

TYPED_TEST_P(KeyParity, ChoosesWhatTheHostDoes) {
  const test_stream stream;
  constexpr index_t longest = 500;
  host::key_selector on_the_host(longest);
  device::key_selector selector(longest, on_stream{stream.get()});
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    dice d(seed);
    const index_t count = d.chance(0.1) ? d.within(0, 3) : d.within(0, longest);
    const std::vector<TypeParam> scores = awkward_scores<TypeParam>(count, d);
    std::vector<float> as_floats;
    for (const TypeParam x : scores) {
      as_floats.push_back(math::to_float(x));
    }
    range block;  // anywhere: empty, at an end, everything
    block.first = d.chance(0.2) ? 0 : d.within(0, count);
    block.last = d.chance(0.2) ? count : d.within(block.first, count);
    const double keep =
        d.one_of(std::vector<double>{0.0, 0.5, 1.0, static_cast<double>(d.real(0, 1))});
    const index_t pool = d.one_of(std::vector<index_t>{1, 3, 7, 2 * longest + 1});
    const auto stay = on_the_host.select(as_floats, block, keep, pool);
    std::vector<TypeParam> more = scores;  // never empty
    more.push_back(encoded<TypeParam>(infinity));
    const device_array<TypeParam> lent(more);
    const device_list got = selector.select(lent.data(), count, block, keep, pool);
    EXPECT_EQ(got.most, static_cast<index_t>(stay.size())) << "how many stay is known";
    ASSERT_EQ(to_host(got, stream.get()), (std::vector<index_t>{stay.begin(), stay.end()}));
  }
}

TYPED_TEST_P(KeyParity, ScoresHaveTheBitsOfTheHost) {
  const test_stream stream;
  for (std::uint64_t seed = 0; seed < 25; ++seed) {
    SCOPED_TRACE(seed);
    dice d(seed);
    const index_t rows = d.within(0, 20);
    const index_t columns = d.one_of(std::vector<index_t>{1, 31, 33, 128, 511, 512, 520});
    const std::ptrdiff_t stride = columns + d.within(0, 3);
    const auto some = [&](std::ptrdiff_t count) {
      std::vector<TypeParam> x(static_cast<std::size_t>(count));
      for (TypeParam& one : x) {
        one = encoded<TypeParam>(d.chance(0.001) ? not_a_number
                                 : d.chance(0.1) ? 0.0
                                                 : static_cast<double>(d.real(-4, 4)));
      }
      return x;
    };
    const std::vector<TypeParam> keys = some(1 + rows * stride);  // at an odd address
    const std::vector<TypeParam> query = some(1 + columns);
    std::vector<float> expected(static_cast<std::size_t>(rows));
    host::score_keys<TypeParam>(
        {keys.data() + 1, rows, columns, stride}, std::span(query).subspan(1), expected);
    const device_array<TypeParam> lent_keys(keys);
    const device_array<TypeParam> lent_query(query);
    const device_array<float> out(expected.size() + 1);
    device::score_keys<TypeParam>({lent_keys.data() + 1, rows, columns, stride},
                                  lent_query.data() + 1,
                                  out.data(),
                                  stream.get());
    device::check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize of a test");
    const std::vector<float> got = out.to_host();
    for (std::size_t r = 0; r < expected.size(); ++r) {
      if (std::isnan(expected[r])) {  // its payload is exempt
        EXPECT_TRUE(std::isnan(got[r])) << "key " << r;
      } else {
        EXPECT_EQ(math::bits_of(got[r]), math::bits_of(expected[r])) << "key " << r;
      }
    }
  }
}
REGISTER_TYPED_TEST_SUITE_P(KeyParity, ChoosesWhatTheHostDoes, ScoresHaveTheBitsOfTheHost);

using every_element = ::testing::Types<float, bfloat16, float16>;

}  // namespace unmask::testing
