// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include "support/random_request.hpp"

namespace unmask::testing {
namespace {

TEST(by_margin_beside_the_naive_decoder, with_confidence_above) {
  compare({.seed = 1013}, by_margin{}, [](dice& d) { return confidence_above{d.real(0.0, 1.0)}; });
}

TEST(by_margin_beside_the_naive_decoder, with_confidence_at_least) {
  compare(
      {.seed = 1014}, by_margin{}, [](dice& d) { return confidence_at_least{d.real(0.0, 1.0)}; });
}

TEST(by_margin_beside_the_naive_decoder, with_top_k) {
  compare({.seed = 1015}, by_margin{}, [](dice& d) { return top_k{d.within(0, 5)}; });
}

TEST(by_margin_beside_the_naive_decoder, with_scheduled) {
  compare({.seed = 1016}, by_margin{}, [](dice& d) { return scheduled{d.within(1, 12)}; });
}

TEST(by_margin_beside_the_naive_decoder, with_timesteps) {
  compare({.seed = 1017}, by_margin{}, [](dice& d) {
    return timesteps{.steps = d.within(1, 30), .epsilon = d.real(1e-3, 0.5)};
  });
}

TEST(by_margin_beside_the_naive_decoder, with_entropy_bound) {
  compare({.seed = 1019}, by_margin{}, [](dice& d) { return entropy_bound{d.real(0.0, 3.0)}; });
}

TEST(by_margin_beside_the_naive_decoder, with_confidence_above_and_top_k) {
  compare({.seed = 1020}, by_margin{}, [](dice& d) {
    return confidence_above{d.real(0.0, 1.0)} && top_k{d.within(0, 4)};
  });
}

TEST(by_margin_beside_the_naive_decoder, with_confidence_above_or_scheduled) {
  compare({.seed = 1021}, by_margin{}, [](dice& d) {
    return confidence_above{d.real(0.5, 1.0)} || scheduled{d.within(1, 12)};
  });
}

TEST(by_margin_beside_the_naive_decoder, with_entropy_bound_and_confidence_at_least) {
  compare({.seed = 1022}, by_margin{}, [](dice& d) {
    return entropy_bound{d.real(0.0, 4.0)} && confidence_at_least{d.real(0.0, 0.6)};
  });
}

TEST(by_margin_beside_the_naive_decoder, with_nested_composition) {
  compare({.seed = 1023}, by_margin{}, [](dice& d) {
    return (confidence_at_least{d.real(0.0, 1.0)} && top_k{d.within(0, 3)}) ||
           (entropy_bound{d.real(0.0, 1.0)} && top_k{5});
  });
}

}  // namespace
}  // namespace unmask::testing
