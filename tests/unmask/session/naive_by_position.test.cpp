// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include "support/random_request.hpp"

namespace unmask::testing {
namespace {

TEST(left_to_right_beside_the_naive_decoder, with_confidence_above) {
  compare(
      {.seed = 1037}, left_to_right{}, [](dice& d) { return confidence_above{d.real(0.0, 1.0)}; });
}

TEST(left_to_right_beside_the_naive_decoder, with_confidence_at_least) {
  compare({.seed = 1038}, left_to_right{}, [](dice& d) {
    return confidence_at_least{d.real(0.0, 1.0)};
  });
}

TEST(left_to_right_beside_the_naive_decoder, with_top_k) {
  compare({.seed = 1039}, left_to_right{}, [](dice& d) { return top_k{d.within(0, 5)}; });
}

TEST(left_to_right_beside_the_naive_decoder, with_scheduled) {
  compare({.seed = 1040}, left_to_right{}, [](dice& d) { return scheduled{d.within(1, 12)}; });
}

TEST(left_to_right_beside_the_naive_decoder, with_timesteps) {
  compare({.seed = 1041}, left_to_right{}, [](dice& d) {
    return timesteps{.steps = d.within(1, 30), .epsilon = d.real(1e-3, 0.5)};
  });
}

TEST(left_to_right_beside_the_naive_decoder, with_entropy_bound) {
  compare({.seed = 1043}, left_to_right{}, [](dice& d) { return entropy_bound{d.real(0.0, 3.0)}; });
}

TEST(left_to_right_beside_the_naive_decoder, with_confidence_above_and_top_k) {
  compare({.seed = 1044}, left_to_right{}, [](dice& d) {
    return confidence_above{d.real(0.0, 1.0)} && top_k{d.within(0, 4)};
  });
}

TEST(left_to_right_beside_the_naive_decoder, with_confidence_above_or_scheduled) {
  compare({.seed = 1045}, left_to_right{}, [](dice& d) {
    return confidence_above{d.real(0.5, 1.0)} || scheduled{d.within(1, 12)};
  });
}

TEST(left_to_right_beside_the_naive_decoder, with_entropy_bound_and_confidence_at_least) {
  compare({.seed = 1046}, left_to_right{}, [](dice& d) {
    return entropy_bound{d.real(0.0, 4.0)} && confidence_at_least{d.real(0.0, 0.6)};
  });
}

TEST(left_to_right_beside_the_naive_decoder, with_nested_composition) {
  compare({.seed = 1047}, left_to_right{}, [](dice& d) {
    return (confidence_at_least{d.real(0.0, 1.0)} && top_k{d.within(0, 3)}) ||
           (entropy_bound{d.real(0.0, 1.0)} && top_k{5});
  });
}

TEST(at_random_beside_the_naive_decoder, with_confidence_above) {
  compare({.seed = 1049}, at_random{}, [](dice& d) { return confidence_above{d.real(0.0, 1.0)}; });
}

TEST(at_random_beside_the_naive_decoder, with_confidence_at_least) {
  compare(
      {.seed = 1050}, at_random{}, [](dice& d) { return confidence_at_least{d.real(0.0, 1.0)}; });
}

TEST(at_random_beside_the_naive_decoder, with_top_k) {
  compare({.seed = 1051}, at_random{}, [](dice& d) { return top_k{d.within(0, 5)}; });
}

TEST(at_random_beside_the_naive_decoder, with_scheduled) {
  compare({.seed = 1052}, at_random{}, [](dice& d) { return scheduled{d.within(1, 12)}; });
}

TEST(at_random_beside_the_naive_decoder, with_timesteps) {
  compare({.seed = 1053}, at_random{}, [](dice& d) {
    return timesteps{.steps = d.within(1, 30), .epsilon = d.real(1e-3, 0.5)};
  });
}

TEST(at_random_beside_the_naive_decoder, with_entropy_bound) {
  compare({.seed = 1055}, at_random{}, [](dice& d) { return entropy_bound{d.real(0.0, 3.0)}; });
}

TEST(at_random_beside_the_naive_decoder, with_confidence_above_and_top_k) {
  compare({.seed = 1056}, at_random{}, [](dice& d) {
    return confidence_above{d.real(0.0, 1.0)} && top_k{d.within(0, 4)};
  });
}

TEST(at_random_beside_the_naive_decoder, with_confidence_above_or_scheduled) {
  compare({.seed = 1057}, at_random{}, [](dice& d) {
    return confidence_above{d.real(0.5, 1.0)} || scheduled{d.within(1, 12)};
  });
}

TEST(at_random_beside_the_naive_decoder, with_entropy_bound_and_confidence_at_least) {
  compare({.seed = 1058}, at_random{}, [](dice& d) {
    return entropy_bound{d.real(0.0, 4.0)} && confidence_at_least{d.real(0.0, 0.6)};
  });
}

TEST(at_random_beside_the_naive_decoder, with_nested_composition) {
  compare({.seed = 1059}, at_random{}, [](dice& d) {
    return (confidence_at_least{d.real(0.0, 1.0)} && top_k{d.within(0, 3)}) ||
           (entropy_bound{d.real(0.0, 1.0)} && top_k{5});
  });
}

}  // namespace
}  // namespace unmask::testing
