// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "unmask/session/naive_rankings.hpp"

namespace unmask::testing {

using by_confidence_alone = ::testing::Types<seeded<by_confidence, 1000>>;
INSTANTIATE_TYPED_TEST_SUITE_P(by_confidence_beside_the_naive_decoder, Ranks, by_confidence_alone);

namespace {

TEST(by_confidence_beside_the_naive_decoder, with_factor) {
  compare({.seed = 1006}, by_confidence{}, [](dice& d) {
    return factor{.value = d.real(0.0, 2.0), .accept_last = d.chance(0.5)};
  });
}

TEST(by_confidence_beside_the_naive_decoder, with_factor_or_top_k) {
  compare({.seed = 1012}, by_confidence{}, [](dice& d) {
    return factor{.value = d.real(0.0, 2.0)} || tokens_per_step{d.within(0, 3)};
  });
}

TEST(by_confidence_beside_the_naive_decoder, with_rows_that_no_decision_may_rest_on) {
  const mischief rows = {.nan_rows = 0.15, .empty_rows = 0.15, .infinite_rows = 0.1};
  compare({.seed = 1101, .trouble = rows}, by_confidence{}, [](dice& d) {
    return threshold{d.real(0.0, 1.0)};
  });
}

TEST(by_confidence_beside_the_naive_decoder, with_nothing_but_such_rows) {
  const mischief rows = {.nan_rows = 0.4, .empty_rows = 0.6, .infinite_rows = 0.4};
  compare({.seed = 1102, .trouble = rows}, by_confidence{}, [](dice& d) {
    return threshold{d.real(0.0, 1.0), true};
  });
}

}  // namespace
}  // namespace unmask::testing
