// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "unmask/session/naive_rankings.hpp"

namespace unmask::testing {

using by_entropy_alone = ::testing::Types<seeded<by_entropy, 1024>>;
INSTANTIATE_TYPED_TEST_SUITE_P(by_entropy_beside_the_naive_decoder, Ranks, by_entropy_alone);

}  // namespace unmask::testing
