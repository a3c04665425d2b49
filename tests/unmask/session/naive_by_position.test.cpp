// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "unmask/session/naive_rankings.hpp"

namespace unmask::testing {

using left_to_right_alone = ::testing::Types<seeded<left_to_right, 1036>>;
INSTANTIATE_TYPED_TEST_SUITE_P(left_to_right_beside_the_naive_decoder, Ranks, left_to_right_alone);
using at_random_alone = ::testing::Types<seeded<at_random, 1048>>;
INSTANTIATE_TYPED_TEST_SUITE_P(at_random_beside_the_naive_decoder, Ranks, at_random_alone);

}  // namespace unmask::testing
