// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file Rankings with every commit rule that goes with all of them, beside the naive decoder. A
/// ranking has a file, so that they compile side by side.

#include <gtest/gtest.h>

#include "support/random_request.hpp"

namespace unmask::testing {

/// A ranking, and the seed before those of its tests.
template <class Ranking, std::uint64_t Seed>
struct seeded {
  using ranking = Ranking;
  static constexpr std::uint64_t seed = Seed;
};

template <class Case>
class Ranks : public ::testing::Test {
 protected:
  void beside_the_naive_decoder(std::uint64_t n, const auto& commit_rule_of) {
    compare({.seed = Case::seed + n}, typename Case::ranking{}, commit_rule_of);
  }
};
TYPED_TEST_SUITE_P(Ranks);

TYPED_TEST_P(Ranks, with_confidence_above) {
  this->beside_the_naive_decoder(1, [](dice& d) { return threshold{d.real(0.0, 1.0)}; });
}
TYPED_TEST_P(Ranks, with_confidence_at_least) {
  this->beside_the_naive_decoder(2, [](dice& d) { return threshold{d.real(0.0, 1.0), true}; });
}
TYPED_TEST_P(Ranks, with_top_k) {
  this->beside_the_naive_decoder(3, [](dice& d) { return tokens_per_step{d.within(0, 5)}; });
}
TYPED_TEST_P(Ranks, with_scheduled) {
  this->beside_the_naive_decoder(4, [](dice& d) { return steps_per_block{d.within(1, 12)}; });
}
TYPED_TEST_P(Ranks, with_timesteps) {
  this->beside_the_naive_decoder(
      5, [](dice& d) { return timesteps{.steps = d.within(1, 30), .epsilon = d.real(1e-3, 0.5)}; });
}
TYPED_TEST_P(Ranks, with_entropy_bound) {
  this->beside_the_naive_decoder(7, [](dice& d) { return entropy_bound{d.real(0.0, 3.0)}; });
}
TYPED_TEST_P(Ranks, with_confidence_above_and_top_k) {
  this->beside_the_naive_decoder(
      8, [](dice& d) { return threshold{d.real(0.0, 1.0)} && tokens_per_step{d.within(0, 4)}; });
}
TYPED_TEST_P(Ranks, with_confidence_above_or_scheduled) {
  this->beside_the_naive_decoder(
      9, [](dice& d) { return threshold{d.real(0.5, 1.0)} || steps_per_block{d.within(1, 12)}; });
}
TYPED_TEST_P(Ranks, with_entropy_bound_and_confidence_at_least) {
  this->beside_the_naive_decoder(10, [](dice& d) {
    return entropy_bound{d.real(0.0, 4.0)} && threshold{d.real(0.0, 0.6), true};
  });
}
TYPED_TEST_P(Ranks, with_nested_composition) {
  this->beside_the_naive_decoder(11, [](dice& d) {
    return (threshold{d.real(0.0, 1.0), true} && tokens_per_step{d.within(0, 3)}) ||
           (entropy_bound{d.real(0.0, 1.0)} && tokens_per_step{5});
  });
}

REGISTER_TYPED_TEST_SUITE_P(Ranks,
                            with_confidence_above,
                            with_confidence_at_least,
                            with_top_k,
                            with_scheduled,
                            with_timesteps,
                            with_entropy_bound,
                            with_confidence_above_and_top_k,
                            with_confidence_above_or_scheduled,
                            with_entropy_bound_and_confidence_at_least,
                            with_nested_composition);

}  // namespace unmask::testing
