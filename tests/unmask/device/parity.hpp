// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// The suite that every shipped part passes on the host and on a stream, bit by bit. Compiled
/// twice: with emulated kernels (emulated_parity_*.test.cpp), and for a device
/// (cuda/parity.test.cpp), where it skips itself if there is none.

#include <gtest/gtest.h>

#include "support/sessions_beside.hpp"
#include "unmask/device/policies.hpp"

namespace unmask::testing {

template <class Case>
class Parity : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_device()) {
      GTEST_SKIP() << "no CUDA device";
    }
  }
};
TYPED_TEST_SUITE_P(Parity);

/// The policy, drawing at temperature 0 if it draws.
template <class Policy>
[[nodiscard]] Policy greedily(Policy p) {
  const auto edit = [&]<std::size_t I>(std::integral_constant<std::size_t, I>) {
    if constexpr (std::is_same_v<typename Policy::template part_type<I>, sampling>) {
      const_cast<sampling&>(p.template part_at<I>()).temperature = 0.0F;
    }
  };
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (edit(std::integral_constant<std::size_t, I>{}), ...);
  }(std::make_index_sequence<Policy::part_total>());
  return p;
}

/// Decodes a few batches with logits of one type.
template <element T, class Case>
void decode_beside(const std::vector<index_t>& vocabularies, int rounds) {
  const test_stream stream;
  int steps = 0;
  for (int round = 0; round < rounds && !::testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
#if defined(UNMASK_FAKE_CUDA)
    const flushing_kernels as_with_fast_math(round % 2 == 1);
#endif
    dice d(mixed(11, static_cast<std::uint64_t>(round)));
    const auto p = round == 1 ? greedily(Case::value()) : Case::value();
    sessions_beside<typename Case::policy_type> both(
        p, d.one_of(vocabularies), d.within(1, 3), 14, stream.get(), d);
    for (int i = 0; i < 60 && both.template step<T>(); ++i) {
    }
    steps += both.steps();
  }
  EXPECT_GT(steps, 4) << "hardly anything was compared";
}

TYPED_TEST_P(Parity, DecidesStepByStepWhatTheHostDoesWithFloat) {
  decode_beside<float, TypeParam>({7, 33, 64, 301}, 4);
}

#if !defined(UNMASK_FAKE_CUDA)
// The element type matters to the read alone, which emulated_read.test.cpp covers.
TYPED_TEST_P(Parity, DecidesStepByStepWhatTheHostDoesWithBfloat16) {
  decode_beside<bfloat16, TypeParam>({1009, 20011}, 4);
}
TYPED_TEST_P(Parity, DecidesStepByStepWhatTheHostDoesWithFloat16) {
  decode_beside<float16, TypeParam>({64, 126464}, 2);
}
REGISTER_TYPED_TEST_SUITE_P(Parity,
                            DecidesStepByStepWhatTheHostDoesWithFloat,
                            DecidesStepByStepWhatTheHostDoesWithBfloat16,
                            DecidesStepByStepWhatTheHostDoesWithFloat16);
#else
REGISTER_TYPED_TEST_SUITE_P(Parity, DecidesStepByStepWhatTheHostDoesWithFloat);
#endif

template <class List>
struct types_of;
template <class... Cases>
struct types_of<policy_list<Cases...>> {
  using type = ::testing::Types<Cases...>;
};

}  // namespace unmask::testing
