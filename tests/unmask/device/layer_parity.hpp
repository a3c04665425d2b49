// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// As parity.hpp, for layered policies.

#include <gtest/gtest.h>

#include "support/layers_beside.hpp"
#include "unmask/device/parity.hpp"

namespace unmask::testing {

template <class Case>
class LayerParity : public Parity<Case> {};
TYPED_TEST_SUITE_P(LayerParity);

template <element T, class Case>
void choose_beside(int rounds) {
  const test_stream stream;
  int steps = 0;
  int skips = 0;
  for (int round = 0; round < rounds && !::testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    dice d(mixed(23, static_cast<std::uint64_t>(round)));
    // Once more segments than a launch has room for.
    const bool many = std::same_as<T, float> && round == 1;
    layers_beside<T, typename Case::policy_type> both(
        Case::value(), many ? 18 : d.within(1, 3), many ? 8 : 24, stream.get(), d);
    for (int i = 0; i < 60 && both.step(); ++i) {
    }
    steps += both.steps();
    skips += both.skips();
  }
  EXPECT_GT(steps, 4) << "hardly anything was compared";
  if (session<typename Case::policy_type>::has_hooks) {
    EXPECT_GT(skips, 4) << "hardly anything was skipped";
  }
}

TYPED_TEST_P(LayerParity, ChoosesLayerByLayerWhatTheHostDoesWithFloat) {
  choose_beside<float, TypeParam>(5);
}
TYPED_TEST_P(LayerParity, ChoosesLayerByLayerWhatTheHostDoesWithBfloat16) {
  choose_beside<bfloat16, TypeParam>(3);
}
TYPED_TEST_P(LayerParity, ChoosesLayerByLayerWhatTheHostDoesWithFloat16) {
  choose_beside<float16, TypeParam>(3);
}
REGISTER_TYPED_TEST_SUITE_P(LayerParity,
                            ChoosesLayerByLayerWhatTheHostDoesWithFloat,
                            ChoosesLayerByLayerWhatTheHostDoesWithBfloat16,
                            ChoosesLayerByLayerWhatTheHostDoesWithFloat16);

}  // namespace unmask::testing
