// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include "support/random_request.hpp"

namespace unmask::testing {
namespace {

TEST(by_confidence_beside_the_naive_decoder, with_confidence_above) {
  compare(
      {.seed = 1001}, by_confidence{}, [](dice& d) { return confidence_above{d.real(0.0, 1.0)}; });
}

TEST(by_confidence_beside_the_naive_decoder, with_confidence_at_least) {
  compare({.seed = 1002}, by_confidence{}, [](dice& d) {
    return confidence_at_least{d.real(0.0, 1.0)};
  });
}

TEST(by_confidence_beside_the_naive_decoder, with_top_k) {
  compare({.seed = 1003}, by_confidence{}, [](dice& d) { return top_k{d.within(0, 5)}; });
}

TEST(by_confidence_beside_the_naive_decoder, with_scheduled) {
  compare({.seed = 1004}, by_confidence{}, [](dice& d) { return scheduled{d.within(1, 12)}; });
}

TEST(by_confidence_beside_the_naive_decoder, with_timesteps) {
  compare({.seed = 1005}, by_confidence{}, [](dice& d) {
    return timesteps{.steps = d.within(1, 30), .epsilon = d.real(1e-3, 0.5)};
  });
}

TEST(by_confidence_beside_the_naive_decoder, with_factor) {
  compare({.seed = 1006}, by_confidence{}, [](dice& d) {
    return factor{.value = d.real(0.0, 2.0), .accept_last = d.chance(0.5)};
  });
}

TEST(by_confidence_beside_the_naive_decoder, with_entropy_bound) {
  compare({.seed = 1007}, by_confidence{}, [](dice& d) { return entropy_bound{d.real(0.0, 3.0)}; });
}

TEST(by_confidence_beside_the_naive_decoder, with_confidence_above_and_top_k) {
  compare({.seed = 1008}, by_confidence{}, [](dice& d) {
    return confidence_above{d.real(0.0, 1.0)} && top_k{d.within(0, 4)};
  });
}

TEST(by_confidence_beside_the_naive_decoder, with_confidence_above_or_scheduled) {
  compare({.seed = 1009}, by_confidence{}, [](dice& d) {
    return confidence_above{d.real(0.5, 1.0)} || scheduled{d.within(1, 12)};
  });
}

TEST(by_confidence_beside_the_naive_decoder, with_entropy_bound_and_confidence_at_least) {
  compare({.seed = 1010}, by_confidence{}, [](dice& d) {
    return entropy_bound{d.real(0.0, 4.0)} && confidence_at_least{d.real(0.0, 0.6)};
  });
}

TEST(by_confidence_beside_the_naive_decoder, with_nested_composition) {
  compare({.seed = 1011}, by_confidence{}, [](dice& d) {
    return (confidence_at_least{d.real(0.0, 1.0)} && top_k{d.within(0, 3)}) ||
           (entropy_bound{d.real(0.0, 1.0)} && top_k{5});
  });
}

TEST(by_confidence_beside_the_naive_decoder, with_factor_or_top_k) {
  compare({.seed = 1012}, by_confidence{}, [](dice& d) {
    return factor{.value = d.real(0.0, 2.0)} || top_k{d.within(0, 3)};
  });
}

TEST(by_confidence_beside_the_naive_decoder, with_rows_that_no_decision_may_rest_on) {
  const mischief rows = {.nan_rows = 0.15, .empty_rows = 0.15, .infinite_rows = 0.1};
  compare({.seed = 1101, .trouble = rows}, by_confidence{}, [](dice& d) {
    return confidence_above{d.real(0.0, 1.0)};
  });
}

TEST(by_confidence_beside_the_naive_decoder, with_nothing_but_such_rows) {
  const mischief rows = {.nan_rows = 0.4, .empty_rows = 0.6, .infinite_rows = 0.4};
  compare({.seed = 1102, .trouble = rows}, by_confidence{}, [](dice& d) {
    return confidence_at_least{d.real(0.0, 1.0)};
  });
}

// The schedules as they ship; elsewhere one type stands for both.
TEST(by_confidence_beside_the_naive_decoder, with_sequential_blocks_itself) {
  compare(
      {.seed = 1103},
      by_confidence{},
      [](dice& d) { return confidence_above{d.real(0.0, 1.0)}; },
      sequential_blocks{});
}

TEST(by_confidence_beside_the_naive_decoder, with_whole_sequence_itself) {
  compare(
      {.seed = 1104},
      by_confidence{},
      [](dice& d) { return confidence_above{d.real(0.0, 1.0)}; },
      whole_sequence{});
}

}  // namespace
}  // namespace unmask::testing
